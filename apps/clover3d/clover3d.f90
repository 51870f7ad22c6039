! The driver of clover3d in Fortran: the order of the loops, the time step, the table, and what backstay needs. The
! loops themselves are those of the solver, which fortran.cpp hands over. Prints and writes the same bytes as the driver
! in C++.
module clover3d
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use backstay
  implicit none
  private
  public :: simulate, simulate_plain, start, command

  ! Loops that exchange halos, counted as in loops.h.
  integer(c_int), parameter :: exchange_start = 1, exchange_viscosity = 3, exchange_half = 7, exchange_velocity = 9, &
    exchange_fluxes = 12, exchange_swept_x = 20
  real(real64), parameter :: first_dt = 0.01_real64, growth_of_dt = 1.5_real64

  ! How much backstay is told: as --information counts, from `usual` on, which it is without.
  integer(c_int), parameter :: usual = 0, none = 1, initphase = 2, list = 4, triggered = 6

  type, bind(C) :: command_line
    integer(c_int) :: steps, output_every, plain, quiet, information, trigger_every
  end type

  type, bind(C) :: record
    integer(c_int64_t) :: step = 0
    real(c_double) :: time = 0, dt = 0, mass = 0, internal_energy = 0, kinetic_energy = 0, pressure = 0
  end type

  type, bind(C) :: clock_type
    real(c_double) :: time = 0, dt = 0
  end type

  type, bind(C) :: field_type
    character(kind=c_char) :: name(32)
    type(c_ptr) :: data
    integer(c_int) :: extent(3), owned(3), global(3), lower(3), halo, is_constant
  end type

  type, bind(C) :: line_type
    character(kind=c_char) :: name(32)
    type(c_ptr) :: data
    integer(c_int) :: length
  end type

  type, bind(C) :: loop_type
    character(kind=c_char) :: name(32)
    integer(c_int) :: uses
  end type

  !> Grows by a row now and then.
  type, extends(backstay_memory) :: table
    type(record), allocatable :: rows(:)
  contains
    procedure :: look => look_at_rows, resize => make_room_for_rows
  end type

  type(command_line) :: command
  integer(c_int), target :: step
  integer(c_int), target :: output_every
  type(clock_type), target :: clock
  type(table), target :: history
  class(backstay_session), pointer :: session => null()
  integer, allocatable :: computations(:)
  integer(int64) :: bytes_of_arrays

  interface
    subroutine clover3d_start(count, words, run) bind(C)
      import
      integer(c_int), value :: count
      type(c_ptr), intent(in) :: words(*)
      type(command_line), intent(out) :: run
    end subroutine
    integer(c_int) function clover3d_failed() bind(C)
      import
    end function
    subroutine clover3d_complain(sentence) bind(C)
      import
      character(kind=c_char), intent(in) :: sentence(*)
    end subroutine
    subroutine clover3d_give_up() bind(C)
    end subroutine
    integer(c_int) function clover3d_begin_mpi() bind(C)
      import
    end function
    subroutine clover3d_end_mpi() bind(C)
    end subroutine
    subroutine clover3d_work_in(comm) bind(C)
      import
      integer(c_int), value :: comm
    end subroutine
    subroutine clover3d_end() bind(C)
    end subroutine
    subroutine clover3d_begin_again() bind(C)
    end subroutine
    subroutine clover3d_watch(before, returned) bind(C)
      import
      type(c_funptr), value :: before, returned
    end subroutine
    integer(c_int) function clover3d_field_count() bind(C)
      import
    end function
    integer(c_int) function clover3d_line_count() bind(C)
      import
    end function
    integer(c_int) function clover3d_loop_count() bind(C)
      import
    end function
    subroutine clover3d_describe_field(number, field) bind(C)
      import
      integer(c_int), value :: number
      type(field_type), intent(out) :: field
    end subroutine
    subroutine clover3d_describe_line(number, line) bind(C)
      import
      integer(c_int), value :: number
      type(line_type), intent(out) :: line
    end subroutine
    subroutine clover3d_describe_loop(number, loop) bind(C)
      import
      integer(c_int), value :: number
      type(loop_type), intent(out) :: loop
    end subroutine
    subroutine clover3d_describe_use(loop, number, field, mode) bind(C)
      import
      integer(c_int), value :: loop, number
      integer(c_int), intent(out) :: field, mode
    end subroutine
    subroutine clover3d_ideal_gas_start() bind(C)
    end subroutine
    subroutine clover3d_ideal_gas_half() bind(C)
    end subroutine
    subroutine clover3d_viscosity() bind(C)
    end subroutine
    real(c_double) function clover3d_time_step() bind(C)
      import
    end function
    subroutine clover3d_exchange(loop) bind(C)
      import
      integer(c_int), value :: loop
    end subroutine
    subroutine clover3d_pdv_predict(dt) bind(C)
      import
      real(c_double), value :: dt
    end subroutine
    subroutine clover3d_accelerate(dt) bind(C)
      import
      real(c_double), value :: dt
    end subroutine
    subroutine clover3d_pdv_correct(dt) bind(C)
      import
      real(c_double), value :: dt
    end subroutine
    subroutine clover3d_volume_fluxes(dt) bind(C)
      import
      real(c_double), value :: dt
    end subroutine
    subroutine clover3d_sweep_volumes(axis, to_sweep) bind(C)
      import
      integer(c_int), value :: axis
      real(c_double), intent(in) :: to_sweep(3)
    end subroutine
    subroutine clover3d_cell_fluxes(axis) bind(C)
      import
      integer(c_int), value :: axis
    end subroutine
    subroutine clover3d_cell_update(axis) bind(C)
      import
      integer(c_int), value :: axis
    end subroutine
    subroutine clover3d_node_masses(axis) bind(C)
      import
      integer(c_int), value :: axis
    end subroutine
    subroutine clover3d_momentum_flux(axis, component) bind(C)
      import
      integer(c_int), value :: axis, component
    end subroutine
    subroutine clover3d_momentum_update(axis, component) bind(C)
      import
      integer(c_int), value :: axis, component
    end subroutine
    subroutine clover3d_reset() bind(C)
    end subroutine
    subroutine clover3d_summary(row) bind(C)
      import
      type(record), intent(inout) :: row
    end subroutine
    subroutine clover3d_print_rows(count, rows) bind(C)
      import
      integer(c_int), value :: count
      type(record), intent(in) :: rows(*)
    end subroutine
    subroutine clover3d_write_csv(count, rows) bind(C)
      import
      integer(c_int), value :: count
      type(record), intent(in) :: rows(*)
    end subroutine
    subroutine clover3d_require_end_ahead(at) bind(C)
      import
      integer(c_int), value :: at
    end subroutine
    subroutine clover3d_print_end(at, mass, energy) bind(C)
      import
      integer(c_int), value :: at
      real(c_double), value :: mass, energy
    end subroutine
    subroutine clover3d_print_note(bytes, left_out, taken) bind(C)
      import
      integer(c_int64_t), value :: bytes, left_out
      integer(c_int), value :: taken
    end subroutine
  end interface

contains

  ! ---- the table ----------------------------------------------------------------------------------------------------

  subroutine look_at_rows(self, data, lengths, stat)
    class(table), intent(inout), target :: self
    type(c_ptr), intent(out) :: data
    integer(int64), intent(out) :: lengths(:)
    integer, intent(out) :: stat
    lengths = shape(self%rows)
    data = c_null_ptr
    if (size(self%rows) > 0) data = c_loc(self%rows)
    stat = 0
  end subroutine

  subroutine make_room_for_rows(self, lengths, data, stat)
    class(table), intent(inout), target :: self
    integer(int64), intent(in) :: lengths(:)
    type(c_ptr), intent(out) :: data
    integer, intent(out) :: stat
    deallocate (self%rows)
    allocate (self%rows(lengths(1)), stat=stat)
    data = c_null_ptr
    if (size(self%rows) > 0) data = c_loc(self%rows)
  end subroutine

  subroutine measure()
    type(record) :: row
    row%step = step
    row%time = clock%time
    row%dt = clock%dt
    call clover3d_ideal_gas_start()
    call clover3d_summary(row)
    if (clover3d_failed() /= 0) return
    history%rows = [history%rows, row]
    call clover3d_print_rows(size(history%rows), history%rows)
  end subroutine

  !> The table is complete, the CSV file written, and a last line printed.
  subroutine finish()
    logical :: is_measured
    type(record) :: last
    is_measured = .false.
    if (size(history%rows) > 0) is_measured = history%rows(size(history%rows))%step == step
    if (step == command%steps .and. .not. is_measured) call measure()
    if (clover3d_failed() /= 0) return
    call clover3d_print_rows(size(history%rows), history%rows)
    call clover3d_write_csv(size(history%rows), history%rows)
    if (size(history%rows) == 0) return
    last = history%rows(size(history%rows))
    call clover3d_print_end(step, last%mass, last%internal_energy + last%kinetic_energy)
  end subroutine

  ! ---- a step: see hydro.h ------------------------------------------------------------------------------------------

  subroutine advance()
    real(real64) :: longest
    if (mod(step, command%output_every) == 0) call measure()
    longest = merge(first_dt, growth_of_dt * clock%dt, step == 0)
    call clover3d_ideal_gas_start()
    call clover3d_exchange(exchange_start)
    call clover3d_viscosity()
    call clover3d_exchange(exchange_viscosity)
    clock%dt = min(clover3d_time_step(), longest)
    call lagrangian_step()
    call remap()
    call clover3d_reset()
    clock%time = clock%time + clock%dt
  end subroutine

  subroutine lagrangian_step()
    call clover3d_pdv_predict(clock%dt)
    call clover3d_ideal_gas_half()
    call clover3d_exchange(exchange_half)
    call clover3d_accelerate(clock%dt)
    call clover3d_exchange(exchange_velocity)
    call clover3d_pdv_correct(clock%dt)
  end subroutine

  subroutine remap()
    real(c_double) :: to_sweep(3)
    integer(c_int) :: sweep, axis, component
    call clover3d_volume_fluxes(clock%dt)
    call clover3d_exchange(exchange_fluxes)
    to_sweep = 1
    do sweep = 0, 2
      axis = merge(sweep, 2 - sweep, mod(step, 2) == 0)
      call clover3d_sweep_volumes(axis, to_sweep)
      call clover3d_cell_fluxes(axis)
      call clover3d_cell_update(axis)
      call clover3d_exchange(exchange_swept_x + axis)
      call clover3d_node_masses(axis)
      do component = 0, 2
        call clover3d_momentum_flux(axis, component)
        call clover3d_momentum_update(axis, component)
      end do
      to_sweep(axis + 1) = 0
    end do
  end subroutine

  ! ---- under protection ---------------------------------------------------------------------------------------------

  pure function text_of(chars) result(text)
    character(kind=c_char), intent(in) :: chars(32)
    character(32) :: text
    integer :: i
    text = ""
    do i = 1, 32
      if (chars(i) == c_null_char) exit
      text(i:i) = chars(i)
    end do
  end function

  !> Every array, without its halo. The mesh does not change; the others do, and most are left out of a line.
  subroutine protect_fields(run, stat)
    class(backstay_session), intent(inout) :: run
    integer, intent(out) :: stat
    type(field_type) :: field
    type(line_type) :: line
    real(real64), pointer :: x(:, :, :), along(:)
    type(backstay_placement) :: placement
    integer :: first, last(3), number
    bytes_of_arrays = 0
    stat = 0
    do number = 1, clover3d_field_count()
      call clover3d_describe_field(number - 1, field)
      call c_f_pointer(field%data, x, field%extent)
      first = field%halo + 1
      last = field%halo + field%owned
      placement = backstay_block(field%global, field%lower + 1, field%lower + field%owned)
      associate (inside => x(first:last(1), first:last(2), first:last(3)))
        if (field%is_constant /= 0 .and. command%information == usual) then
          call run%protect_static(text_of(field%name), backstay_data(inside), placement, "1", stat=stat)  ! backstay
        else
          call run%protect(text_of(field%name), backstay_data(inside), placement, "1", stat=stat)  ! backstay
        end if
      end associate
      if (stat /= 0) return
      bytes_of_arrays = bytes_of_arrays + 8 * product(int(field%owned, int64))
    end do
    do number = 1, clover3d_line_count()
      call clover3d_describe_line(number - 1, line)
      call c_f_pointer(line%data, along, [line%length])
      call run%protect_static(text_of(line%name), backstay_data(along), backstay_replicated(), stat=stat)  ! backstay
      if (stat /= 0) return
      bytes_of_arrays = bytes_of_arrays + 8 * line%length
    end do
  end subroutine

  subroutine declare_loops(run, stat)
    class(backstay_session), intent(inout), target :: run
    integer, intent(out) :: stat
    type(loop_type) :: loop
    type(field_type) :: field
    type(backstay_access), allocatable :: accesses(:)
    integer :: number, use
    integer(c_int) :: field_number, mode
    session => run
    if (allocated(computations)) deallocate (computations)
    allocate (computations(clover3d_loop_count()))
    do number = 1, size(computations)
      call clover3d_describe_loop(number - 1, loop)
      allocate (accesses(loop%uses))
      do use = 1, loop%uses
        call clover3d_describe_use(number - 1, use - 1, field_number, mode)
        call clover3d_describe_field(field_number, field)
        select case (mode)
        case (0)
          accesses(use) = backstay_reads(text_of(field%name))
        case (1)
          accesses(use) = backstay_writes(text_of(field%name))
        case default
          accesses(use) = backstay_updates(text_of(field%name))
        end select
      end do
      call run%declare(text_of(loop%name), accesses, computations(number), stat)  ! backstay
      deallocate (accesses)
      if (stat /= 0) return
    end do
    call clover3d_watch(c_funloc(begin_loop), c_funloc(give_result))
  end subroutine

  !> Called by the solver before each loop. 0: what it does is known already.
  integer(c_int) function begin_loop(number) result(runs) bind(C)
    integer(c_int), value :: number
    integer :: stat
    character(1024) :: errmsg
    logical :: skips
    runs = 0
    call session%begin(computations(number + 1), stat, errmsg)  ! backstay
    if (stat == 0) then
      skips = session%replaying(stat, errmsg)  ! backstay
      if (stat == 0 .and. .not. skips) runs = 1
    end if
    if (stat /= 0) call complain(errmsg)
  end function

  !> Called by the solver with what a loop has returned.
  subroutine give_result(values, count) bind(C)
    integer(c_int), value :: count
    real(c_double), intent(inout), target :: values(count)
    integer :: stat
    character(1024) :: errmsg
    call session%result(backstay_data(values), stat, errmsg)  ! backstay
    if (stat /= 0) call complain(errmsg)
  end subroutine

  subroutine complain(sentence)
    character(*), intent(in) :: sentence
    call clover3d_complain(trim(sentence) // c_null_char)
  end subroutine

  !> From the newest checkpoint, or from the beginning, to the end. After the loss of a rank it is called again, in
  !> another communicator.
  subroutine body(run, stat)
    class(backstay_session), intent(inout) :: run
    integer, intent(out) :: stat
    integer :: outcome
    character(1024) :: errmsg
    errmsg = ""
    step = 0
    clock = clock_type()
    output_every = command%output_every
    history%rows = [record ::]
    call clover3d_work_in(run%comm())
    stat = clover3d_failed()
    if (stat == 0) call protect_fields(run, stat)
    if (stat == 0 .and. .not. replays()) call protect_variables(run, stat, errmsg)
    if (stat == 0) call declare_loops(run, stat)
    if (stat == 0) call come_back(run, stat, errmsg)
    do while (stat == 0 .and. step < command%steps)
      call take(run, outcome, stat, errmsg)
      if (stat /= 0 .or. outcome == backstay_stop) exit
      call advance()
      stat = clover3d_failed()
      if (stat == 0) step = step + 1
    end do
    if (stat == 0) call finish()
    if (stat == 0) stat = clover3d_failed()
    if (stat == 0) call print_note(run)
    if (stat /= 0) call complain(merge(errmsg, "a call of backstay failed" // repeat(" ", 999), errmsg /= ""))
  end subroutine

  !> The way is gone again, by what loops have returned, and nothing of this is protected.
  logical function replays()
    replays = any(command%information == [none, initphase, list])
  end function

  subroutine protect_variables(run, stat, errmsg)
    class(backstay_session), intent(inout) :: run
    integer, intent(out) :: stat
    character(*), intent(inout) :: errmsg
    call run%protect("step", backstay_data(step), stat=stat, errmsg=errmsg)  ! backstay
    if (stat == 0) call run%protect("clock", backstay_data(clock), backstay_replicated(), stat=stat, errmsg=errmsg)
    if (stat == 0) &
      call run%protect_memory("history", history, backstay_data(record()), placement=backstay_replicated(), stat=stat, &
                              errmsg=errmsg)
    if (stat == 0) call run%protect("output_every", backstay_data(output_every), stat=stat, errmsg=errmsg)
  end subroutine

  !> To the newest checkpoint, by what backstay is told.
  subroutine come_back(run, stat, errmsg)
    class(backstay_session), intent(inout) :: run
    integer, intent(out) :: stat
    character(*), intent(inout) :: errmsg
    character(12), parameter :: fields(5) = [character(12) :: "density0", "energy0", "xvel0", "yvel0", "zvel0"], &
      variables(4) = [character(12) :: "step", "clock", "history", "output_every"]
    type(backstay_access) :: made(size(fields))
    type(backstay_resumed) :: found
    integer :: i, starts
    stat = 0
    found%resumed = .false.
    if (command%information > none) then
      do i = 1, size(fields)
        made(i) = backstay_writes(trim(fields(i)))
      end do
      call run%declare("start", made, starts, stat, errmsg)  ! backstay
    end if
    if (stat == 0 .and. replays()) call run%replay(found, stat, errmsg)  ! backstay
    if (stat == 0 .and. replays()) call run%result(backstay_data(output_every), stat, errmsg)  ! backstay
    if (stat == 0 .and. found%resumed) call require_same_run(stat)
    if (stat == 0 .and. command%information > none) then
      call run%begin(starts, stat, errmsg)  ! backstay
      if (stat == 0) then
        if (.not. run%replaying()) call clover3d_begin_again()
        stat = clover3d_failed()
      end if
      if (stat == 0) then
        call run%init_done(stat, errmsg)  ! backstay
      end if
    end if
    if (stat == 0 .and. command%information >= list) then
      if (replays()) then
        call run%save_only(fields, stat, errmsg)  ! backstay
      else
        call run%save_only([fields, variables], stat, errmsg)
      end if
    end if
    if (stat /= 0 .or. replays()) return
    call run%resume(found, stat, errmsg)  ! backstay
    if (stat == 0 .and. found%resumed) call require_same_run(stat)
  end subroutine

  !> At the top of a step.
  subroutine take(run, outcome, stat, errmsg)
    class(backstay_session), intent(inout) :: run
    integer, intent(out) :: outcome, stat
    character(*), intent(inout) :: errmsg
    stat = 0
    outcome = backstay_not_due
    if (command%information /= triggered) then
      call run%checkpoint(outcome, stat, errmsg)  ! backstay
    else if (step > 0 .and. mod(step, command%trigger_every) == 0) then
      call run%checkpoint_now(outcome, stat, errmsg)  ! backstay
    end if
  end subroutine

  !> What decides the rows of the table and is no state.
  subroutine require_same_run(stat)
    integer, intent(out) :: stat
    character(12) :: saved, given
    if (output_every /= command%output_every) then
      write (saved, "(i0)") output_every
      write (given, "(i0)") command%output_every
      call complain("the checkpoint was made with --output-every " // trim(saved) // " instead of " // trim(given) // &
                    ": use that one again, or another directory for this run")
    end if
    call clover3d_require_end_ahead(step)
    stat = clover3d_failed()
  end subroutine

  subroutine print_note(run)
    class(backstay_session), intent(in) :: run
    type(backstay_counters) :: counters
    call run%status(counters)
    call clover3d_print_note(bytes_of_arrays, counters%left_out_bytes, int(counters%taken, c_int))
  end subroutine

  subroutine simulate()
    type(backstay_session) :: run
    integer :: stat
    character(1024) :: errmsg
    ! Loops hand on halos, which are in no line: only the top of a step is a place.
    call run%open(["place=calls"], stat=stat, errmsg=errmsg)  ! backstay
    if (stat == 0) call run%loop(body, stat, errmsg)  ! backstay
    if (stat /= 0) call complain(errmsg)
    call run%close()  ! backstay
    call clover3d_end()
    if (stat /= 0) call clover3d_give_up()
  end subroutine

  subroutine simulate_plain()
    integer(c_int) :: world
    world = clover3d_begin_mpi()
    step = 0
    history%rows = [record ::]
    call clover3d_work_in(world)
    do while (clover3d_failed() == 0 .and. step < command%steps)
      call advance()
      step = step + 1
    end do
    if (clover3d_failed() == 0) call finish()
    call clover3d_end()
    if (clover3d_failed() /= 0) call clover3d_give_up()
    call clover3d_end_mpi()
  end subroutine

  !> The words of the command line go to the solver, which knows the options.
  subroutine start()
    character(kind=c_char), allocatable, target :: words(:, :)
    type(c_ptr), allocatable :: pointers(:)
    character(1000) :: word
    integer :: i, j
    allocate (words(1001, command_argument_count()), pointers(command_argument_count()))
    words = c_null_char
    do i = 1, size(pointers)
      call get_command_argument(i, word)
      do j = 1, len_trim(word)
        words(j, i) = word(j:j)
      end do
      pointers(i) = c_loc(words(1, i))
    end do
    call clover3d_start(size(pointers), pointers, command)
    if (clover3d_failed() /= 0) call clover3d_give_up()
  end subroutine

end module

program main
  use clover3d
  implicit none
  call start()
  if (command%plain /= 0) then
    call simulate_plain()
  else
    call simulate()
  end if
end program
