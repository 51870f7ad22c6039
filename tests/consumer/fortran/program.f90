! A program in Fortran that uses an installed backstay.
!   program write DIR     saves `step`, the block `u` (from inside a halo) and the list `particles`
!   program read DIR      puts them back, on any number of ranks, and checks every value
!   program types DIR     alone: regions of every type and form
!   program refused DIR   alone: calls that must be refused
!   program declared DIR  alone: declared computations and replay
!   program closes DIR    alone: closes its session where that may not be
!   program stops DIR     an error that nobody asks for ends the program
!   program inits DIR     init() beside spares, which is refused
!   program loops DIR     counts to 200 in loop(), where ranks may be lost; rank 0 prints "sum 20100"
module pools
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env
  use backstay
  implicit none
  private

  type, extends(backstay_memory), public :: pool
    real(real64), allocatable :: x(:)
  contains
    procedure :: look => pool_look, resize => pool_resize
  end type

  type, extends(backstay_memory), public :: table
    integer(int32), allocatable :: x(:, :)
  contains
    procedure :: look => table_look, resize => table_resize
  end type

  type, extends(pool), public :: closer
    type(backstay_session), pointer :: session => null()
  contains
    procedure :: look => closer_look
  end type

contains

  subroutine closer_look(self, data, lengths, stat)
    class(closer), intent(inout), target :: self
    type(c_ptr), intent(out) :: data
    integer(int64), intent(out) :: lengths(:)
    integer, intent(out) :: stat
    if (associated(self%session)) call self%session%close()
    call pool_look(self, data, lengths, stat)
  end subroutine

  subroutine pool_look(self, data, lengths, stat)
    class(pool), intent(inout), target :: self
    type(c_ptr), intent(out) :: data
    integer(int64), intent(out) :: lengths(:)
    integer, intent(out) :: stat
    stat = merge(0, 1, allocated(self%x))
    if (stat /= 0) return
    lengths = shape(self%x)
    data = c_null_ptr
    if (size(self%x) > 0) data = c_loc(self%x)
  end subroutine

  subroutine pool_resize(self, lengths, data, stat)
    class(pool), intent(inout), target :: self
    integer(int64), intent(in) :: lengths(:)
    type(c_ptr), intent(out) :: data
    integer, intent(out) :: stat
    if (allocated(self%x)) deallocate (self%x)
    allocate (self%x(lengths(1)), stat=stat)
    data = c_null_ptr
    if (size(self%x) > 0) data = c_loc(self%x)
  end subroutine

  subroutine table_look(self, data, lengths, stat)
    class(table), intent(inout), target :: self
    type(c_ptr), intent(out) :: data
    integer(int64), intent(out) :: lengths(:)
    integer, intent(out) :: stat
    lengths = shape(self%x)
    data = c_loc(self%x)
    stat = 0
  end subroutine

  subroutine table_resize(self, lengths, data, stat)
    class(table), intent(inout), target :: self
    integer(int64), intent(in) :: lengths(:)
    type(c_ptr), intent(out) :: data
    integer, intent(out) :: stat
    if (allocated(self%x)) deallocate (self%x)
    allocate (self%x(lengths(1), lengths(2)), stat=stat)
    data = c_loc(self%x)
  end subroutine

end module

program main
  use, intrinsic :: iso_fortran_env
  use backstay
  use pools
  implicit none
  integer, parameter :: rows = 24, columns = 3, halo = 1
  integer :: failures = 0
  character(16) :: what
  character(1000) :: dir
  call get_command_argument(1, what)
  call get_command_argument(2, dir)
  select case (what)
  case ("write", "read")
    call field_on_all_ranks()
  case ("types")
    call types()
  case ("refused")
    call refused()
  case ("declared")
    call declared()
  case ("closes")
    call closes()
  case ("stops")
    call stops()
  case ("loops")
    call loops()
  case ("inits")
    call inits()
  case default
    error stop "program write|read|types|refused|declared|closes|stops|loops|inits DIR"
  end select
  if (failures > 0) error stop 1

contains

  subroutine expect(truth, fact)
    logical, intent(in) :: truth
    character(*), intent(in) :: fact
    if (truth) return
    failures = failures + 1
    write (error_unit, *) "not so: ", fact
  end subroutine

  function options(more)
    character(*), intent(in), optional :: more(:)
    character(1010), allocatable :: options(:)
    options = [character(1010) :: "dir=" // dir, "log=quiet"]
    if (present(more)) options = [character(1010) :: options, more]
  end function

  subroutine field_on_all_ranks()
    type(backstay_session) :: run
    type(backstay_resumed) :: found
    type(backstay_verified) :: verified
    integer(int64), target :: step
    real(real64), allocatable, target :: u(:, :)
    type(pool), target :: particles
    integer :: first, last, i, j, outcome
    call run%open(options([character(32) :: "every=1000000"]))
    first = rows * run%rank() / run%size() + 1
    last = rows * (run%rank() + 1) / run%size()
    allocate (u(1 - halo:columns + halo, first - halo:last + halo), particles%x(0))
    step = 0
    u = 0
    call run%protect("step", backstay_data(step))
    call run%protect("u", backstay_data(u(1:columns, first:last)), &
                     backstay_block([columns, rows], [1, first], [columns, last]), units="m s-1")
    call run%protect_memory("particles", particles, backstay_data(1.0_real64), placement=backstay_distributed_list())
    if (what == "write") then
      step = 41
      do concurrent (i=1:columns, j=first:last)
        u(i, j) = value_at(i, j)
      end do
      particles%x = [(real(i - 1, real64), i=first, last)]
      call run%checkpoint(outcome)
      call expect(outcome == backstay_not_due, "nothing is due")
      call run%checkpoint_now(outcome)
      call expect(outcome == backstay_taken, "one is taken")
      call run%wait()
      call run%verify(verified)
      call expect(verified%lines == 1 .and. verified%damaged == 0, "one whole line")
    else
      call run%resume(found)
      call expect(found%resumed .and. found%line == 1 .and. found%level == "shared", "line 1 of level shared")
      call expect(step == 41, "the step is back")
      do j = first, last
        do i = 1, columns
          call expect(u(i, j) == value_at(i, j), "u is back")
        end do
      end do
      call expect(all(u(0, :) == 0) .and. all(u(:, first - 1) == 0), "the halo is as it was")
      call expect(size(particles%x) == last - first + 1, "so much of the list is back")
      call expect(all(particles%x == [(real(i - 1, real64), i=first, last)]), "the list is back")
    end if
    call run%close()
  end subroutine

  pure real(real64) function value_at(i, j)
    integer, intent(in) :: i, j
    value_at = 0.1_real64 * real((j - 1) * columns + i - 1, real64)
  end function

  subroutine types()
    type :: particle
      integer :: id = 0
      real(real64) :: x(3) = 0
    end type
    type(backstay_session) :: run
    type(backstay_counters) :: counters
    integer(int8), target :: i8(2)
    integer(int16), target :: i16(2)
    integer(int64), target :: cube(2, 3, 4)
    real(real32), target :: sparse(0:9)
    complex(real32), target :: c32
    complex(real64), target :: c64(2)
    logical, target :: flags(3)
    character(5), target :: label
    character(3), target :: labels(2)
    type :: speed
      integer :: id = 0
      real(real64) :: v = 0
      integer :: tag = 7
    end type
    type(particle), target :: particles(4)
    type(speed), target :: speeds(6)
    real(real64), allocatable, target :: empty(:, :)
    type(pool), target :: nothing
    type(table), target :: grows
    integer :: i
    allocate (empty(3, 0), nothing%x(0))
    grows%x = reshape([1, 2, 3, 4, 5, 6], [2, 3])
    i8 = [1_int8, -2_int8]
    i16 = [300_int16, -400_int16]
    cube = reshape([(int(i, int64), i=1, 24)], [2, 3, 4])
    sparse = [(real(i, real32), i=0, 9)]
    c32 = (1.0_real32, 2.0_real32)
    c64 = [(3.0_real64, 4.0_real64), (5.0_real64, 6.0_real64)]
    flags = [.true., .false., .true.]
    label = "seven"
    labels = ["one", "two"]
    do i = 1, 4
      particles(i) = particle(i, [1.0_real64, 2.0_real64, 3.0_real64] * i)
    end do
    speeds%v = [(0.5_real64 * i, i=1, 6)]
    call run%open_alone(options())
    call run%protect("i8", backstay_data(i8))
    call run%protect("i16", backstay_data(i16), backstay_replicated())
    call run%protect_static("cube", backstay_data(cube(:, 2:3, :)))
    call run%protect("sparse", backstay_data(sparse(1:9:2)), backstay_rank_private(), "K")
    call run%protect("c32", backstay_data(c32))
    call run%protect("c64", backstay_data(c64))
    call run%protect("flags", backstay_data(flags))
    call run%protect("label", backstay_data(label))
    call run%protect("labels", backstay_data(labels))
    call run%protect("particles", backstay_data(particles))
    call run%protect("v", backstay_data(speeds%v), units="m s-1")
    call run%protect("middle", backstay_data(labels(:)(2:2)))
    call run%protect("empty", backstay_data(empty))
    call run%protect_memory("nothing", nothing, backstay_data(0.0_real64))
    call run%protect_memory("grows", grows, backstay_data(grows%x(1, 1)), ndim=2)
    call run%checkpoint_now()
    call run%wait()
    grows%x = reshape([0], [1, 1])
    i8 = 0
    i16 = 0
    cube = 0
    sparse = 0
    c32 = 0
    c64 = 0
    flags = .false.
    label = ""
    labels = ""
    particles = particle()
    speeds = speed(1, 0, 8)
    call run%resume()
    call expect(all(speeds%v == [(0.5_real64 * i, i=1, 6)]) .and. all(speeds%tag == 8), "components of an array")
    call expect(all(i8 == [1, -2]) .and. all(i16 == [300, -400]), "small integers")
    call expect(all(cube(:, 1, :) == 0) .and. cube(2, 3, 4) == 24 .and. cube(1, 2, 1) == 3, "a part of a cube")
    call expect(all(sparse == [0, 1, 0, 3, 0, 5, 0, 7, 0, 9]), "every second element")
    call expect(c32 == (1, 2) .and. c64(2) == (5, 6), "complex numbers")
    call expect(all(flags .eqv. [.true., .false., .true.]), "logical values")
    call expect(label == "seven" .and. labels(2) == "two", "texts")
    call expect(particles(4)%id == 4 .and. particles(3)%x(2) == 6, "a derived type")
    call expect(all(shape(grows%x) == [2, 3]) .and. grows%x(2, 3) == 6 .and. size(nothing%x) == 0, "memory that moves")
    call run%status(counters)
    call expect(counters%taken == 1 .and. counters%committed >= 1 .and. counters%last_error == "", "the counters")
    call run%unprotect("label")
    call run%prune(1)
    call expect(.not. run%stopping() .and. .not. run%replaying(), "nobody asks for the end")
    call expect(backstay_version() == "0.1.0", "the version")
    call run%close()
    call run%close()
  end subroutine

  subroutine expect_refusal(stat, errmsg, wanted, word)
    integer, intent(in) :: stat, wanted
    character(*), intent(in) :: errmsg, word
    call expect(stat == wanted .and. index(errmsg, word) > 0, word // " is not in: " // trim(errmsg))
  end subroutine

  subroutine refused()
    type(backstay_session) :: run, other
    type(pool), target :: unready
    character(4000), target :: long_text
    character(20), target :: names(2) = "a name"
    character(10), target :: short_names(2) = "short"
    real(real64), target :: x(3), y(3, 4)
    integer :: stat, number, first
    character(300) :: errmsg
    x = 0
    y = 0
    call run%checkpoint(stat=stat, errmsg=errmsg)
    call expect_refusal(stat, errmsg, backstay_invalid_argument, "the session is not open")
    call run%open_alone([character(8) :: "evry=3"], stat, errmsg)
    call expect_refusal(stat, errmsg, backstay_unknown_option, "every")
    call run%open_alone([character(8) :: " evry=3"], stat, errmsg)
    call expect_refusal(stat, errmsg, backstay_unknown_option, "'evry'")
    call run%open_alone(options([character(20) :: "", "  keep=2"]), stat, errmsg)
    call expect(stat == backstay_ok, "opens: " // trim(errmsg))
    call run%open_alone(options(), stat, errmsg)
    call expect_refusal(stat, errmsg, backstay_invalid_argument, "close it before")
    call other%open_alone(options(), stat, errmsg)
    call expect_refusal(stat, errmsg, backstay_locked, "in use")
    call run%protect("x", backstay_data(x))
    call run%protect("x", backstay_data(x), stat=stat, errmsg=errmsg)
    call expect_refusal(stat, errmsg, backstay_invalid_argument, "'x'")
    call run%protect("y", backstay_data(y(:, 4:1:-1)), stat=stat, errmsg=errmsg)
    call expect_refusal(stat, errmsg, backstay_invalid_argument, "lie -24 bytes apart in dimension 2")
    call run%protect("y", backstay_data(y), backstay_block([3, 4], [1, 1], [3, 3]), stat=stat, errmsg=errmsg)
    call expect_refusal(stat, errmsg, backstay_invalid_argument, "'y'")
    call run%protect("y", backstay_data(y), backstay_block([3], [1], [3]), stat=stat, errmsg=errmsg)
    call expect_refusal(stat, errmsg, backstay_invalid_argument, "has 2 dimensions and its block 1")
    call run%protect_memory("m", unready, backstay_data(x(1)), placement=backstay_block([3], [1], [3]), stat=stat, &
                            errmsg=errmsg)
    call expect_refusal(stat, errmsg, backstay_invalid_argument, "blocks do not")
    call run%protect_memory("m", unready, backstay_data(x(1)), ndim=9, stat=stat, errmsg=errmsg)
    call expect_refusal(stat, errmsg, backstay_invalid_argument, "'m'")
    call of_assumed_size(run, x, stat, errmsg)
    call expect_refusal(stat, errmsg, backstay_invalid_argument, "assumed size")
    do first = 3, 6  ! parts without an element
      call run%protect("none", backstay_data(x(first:1)), stat=stat, errmsg=errmsg)
      if (first == 3 .and. stat /= backstay_ok) then
        call expect_refusal(stat, errmsg, backstay_invalid_argument, "an empty part")
      else
        call expect(stat == backstay_ok, "an empty part is protected: " // trim(errmsg))
        call run%unprotect("none")
      end if
      call run%protect("none", backstay_data(y(first:1, :)))
      call run%unprotect("none")
    end do
    number = run%comm(stat, errmsg)
    call expect_refusal(stat, errmsg, backstay_invalid_argument, "MPI")
    call other%open(0, stat=stat, errmsg=errmsg)
    call expect_refusal(stat, errmsg, backstay_invalid_argument, "MPI")
    call run%loop(protects_what_is_not_there, stat, errmsg)
    call expect_refusal(stat, errmsg, backstay_user, "'there' is not allocated")
    call run%declare("flux", [backstay_reads("z")], number, stat, errmsg)
    call expect_refusal(stat, errmsg, backstay_not_found, "'z'")
    call run%declare("flux", [backstay_reads("x", [1], [4])], number, stat, errmsg)
    call expect_refusal(stat, errmsg, backstay_invalid_argument, "'x'")
    call run%declare("flux", [backstay_reads("x", [1, 1], [3])], number, stat, errmsg)
    call expect_refusal(stat, errmsg, backstay_invalid_argument, "'x'")
    call run%protect("x", backstay_data(long_text), units="m", stat=stat, errmsg=errmsg)
    call expect_refusal(stat, errmsg, backstay_invalid_argument, "'x' is already protected")
    call run%protect("n", backstay_data(unready%x), stat=stat, errmsg=errmsg)
    call expect_refusal(stat, errmsg, backstay_invalid_argument, "'n' is not allocated")
    call run%result(backstay_data(x(1:3:2)), stat, errmsg)
    call expect_refusal(stat, errmsg, backstay_invalid_argument, "one piece")
    call run%prune(0, stat, errmsg)
    call expect_refusal(stat, errmsg, backstay_invalid_argument, "keep 1 or more")
    call run%close()
    call run%open_alone(options())
    call run%protect("names", backstay_data(names))
    call run%checkpoint_now()
    call run%close()
    call run%open_alone(options())
    call run%protect("names", backstay_data(short_names))
    call run%resume(stat=stat, errmsg=errmsg)
    call expect_refusal(stat, errmsg, backstay_mismatch, "text of 20 bytes and is protected as text of 10 bytes")
    call expect(all(short_names == "short"), "shorter texts are left as they were")
    call run%close()
  end subroutine

  subroutine of_assumed_size(run, x, stat, errmsg)
    type(backstay_session), intent(in) :: run
    real(real64), intent(in), target :: x(*)
    integer, intent(out) :: stat
    character(*), intent(inout) :: errmsg
    call run%protect("a", backstay_data(x), stat=stat, errmsg=errmsg)
  end subroutine

  !> `u` is updated but for its ends, `f` is overwritten before it is read: a line needs `u` alone. The second session
  !> goes its way again, and does not compute what the first one did.
  subroutine declared()
    integer :: steps, computed
    real(real64) :: total, total_again
    call march(4, steps, computed, total)
    call expect(steps == 4 .and. computed == 8, "the first computes all")
    call march(6, steps, computed, total_again)
    call expect(steps == 6 .and. computed == 4, "the second computes what is new")
    call expect(total_again > total, "it went on")
  end subroutine

  subroutine march(last, steps, computed, total)
    integer, intent(in) :: last
    integer, intent(out) :: steps, computed
    real(real64), intent(out) :: total
    type(backstay_session) :: run
    type(backstay_counters) :: counters
    real(real64), target :: u(0:9), f(2, 5)
    integer :: fluxes, update, ends, same
    u = 1
    f = 0
    computed = 0
    call run%open_alone(options([character(32) :: "every=1", "policy=wait"]))
    call run%protect("u", backstay_data(u))
    call run%protect("f", backstay_data(f))
    call run%declare("fluxes", [backstay_reads("u", [2], [9], [-1], [1]), backstay_writes("f")], fluxes)
    call run%declare("update", [backstay_reads("f"), backstay_updates("u")], update)
    call run%declare("ends", [backstay_writes_some("u", [1], [10])], ends)
    call run%declare("ends", [backstay_writes_some("u", [1], [10])], same)
    call expect(fluxes == 0 .and. update == 1 .and. same == ends, "the numbers of computations")
    call run%replay()
    call run%save_only([character(4) :: "u"])
    total = 0
    do steps = 1, last
      call run%checkpoint()
      call run%begin(fluxes)
      if (.not. run%replaying()) then
        f = sum(u(1:8))
        computed = computed + 1
      end if
      call run%begin(update)
      if (.not. run%replaying()) then
        u = u + f(1, 1)
        computed = computed + 1
        total = sum(u)
      end if
      call run%result(backstay_data(total))
      call run%end()
    end do
    steps = steps - 1
    call run%checkpoint_now()
    call run%status(counters)
    call expect(counters%committed > 0 .and. counters%left_out_bytes == 80, "lines without f")
    call run%close()
  end subroutine

  subroutine closes()
    type(backstay_session), target :: run
    type(closer), target :: memory
    type(backstay_resumed) :: found
    memory%x = [1.0_real64, 2.0_real64, 3.0_real64]
    call run%open_alone(options())
    call run%protect_memory("memory", memory, backstay_data(1.0_real64))
    memory%session => run
    call run%checkpoint_now()
    call run%wait()
    memory%session => null()
    memory%x = 0
    call run%resume(found)
    call expect(found%line == 1 .and. all(memory%x == [1, 2, 3]), "the session is as before")
    call run%close()
    call run%close()
  end subroutine

  subroutine stops()
    type(backstay_session) :: run
    call run%open_alone([character(8) :: "evry=3"])
    call expect(.false., "it goes on behind an error")
  end subroutine

  !> Its options are those of `backstay run`. Not in a communicator of its own, as a program with MPI would be.
  subroutine loops()
    type(backstay_session) :: run
    integer :: stat
    call run%open()
    call run%loop(count_to_200, stat)
    call expect(stat == backstay_ok, "it comes to its end")
    call run%close()
  end subroutine

  subroutine inits()
    type(backstay_session) :: run
    character(200) :: why
    integer :: stat
    call run%open()
    call run%init(count_to_200, stat, why)
    call expect(stat == backstay_invalid_argument, "nobody would record it")
    call expect(index(why, "cannot record the messages of this program") > 0, why)
    print "(a)", trim(why)
    call run%close()
  end subroutine

  subroutine protects_what_is_not_there(run, stat)
    class(backstay_session), intent(inout) :: run
    integer, intent(out) :: stat
    real(real64), allocatable, target :: there(:)
    call run%protect("there", backstay_data(there), stat=stat)
  end subroutine

  subroutine count_to_200(run, stat)
    class(backstay_session), intent(inout) :: run
    integer, intent(out) :: stat
    integer, target :: step, sum
    step = 0
    sum = 0
    call run%protect("step", backstay_data(step), stat=stat)
    if (stat == 0) call run%protect("sum", backstay_data(sum), backstay_rank_private(), stat=stat)
    if (stat == 0) call run%resume(stat=stat)
    do while (stat == 0 .and. step < 200)
      step = step + 1
      sum = sum + step
      call run%checkpoint(stat=stat)
    end do
    if (stat == 0 .and. run%rank() == 0) print "(a, i0)", "sum ", sum
    flush (output_unit)
    call run%unprotect("sum")
    call run%unprotect("step")
  end subroutine

end program
