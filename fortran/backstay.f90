!> backstay for Fortran 2008 programs (with the assumed rank of TS 29113): the verbs of backstay.h as procedures of
!> type(backstay_session).
!>
!> All procedures but close() have `stat` and `errmsg` as the last two arguments, both optional, as ALLOCATE has them:
!> stat is backstay_ok (0) or one of the codes below, and errmsg the sentence. Where something fails and stat is absent,
!> the sentence goes to error_unit and the program stops.
!>
!> What is protected must have the attribute TARGET, and stay where it is until the session is closed or the region
!> unprotected: what moves or changes its size is protected as backstay_memory. Bounds count from 1, whatever the
!> array's own are, and include the last; dimensions are in Fortran's order, and in the files in C's, as in all files of
!> Fortran programs.
!>
!> Arrays are handed over as backstay_data(x): that is a C function to the compiler, which gives it the descriptor of x
!> itself. To procedures in Fortran gfortran gives a copy of components of an array of a derived type, and a hidden
!> length of texts that they do not expect. Expressions and vector subscripts are copies in every case, and gone behind
!> the call.
module backstay
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  implicit none
  private

  integer, parameter, public :: backstay_ok = 0, backstay_invalid_argument = 1, backstay_unknown_option = 2, &
    backstay_not_found = 3, backstay_corrupt = 4, backstay_version_mismatch = 5, backstay_mismatch = 6, &
    backstay_io = 7, backstay_no_space = 8, backstay_permission = 9, backstay_locked = 10, backstay_comm = 11, &
    backstay_timeout = 12, backstay_limit = 13, backstay_user = 14, backstay_internal = 15, backstay_rank_lost = 16

  !> What a call of checkpoint() did.
  integer, parameter, public :: backstay_not_due = 0, backstay_taken = 1, backstay_skipped = 2, backstay_failed = 3, &
    backstay_stop = 4

  integer, parameter :: most_dimensions = 7
  integer(c_int), parameter :: by_default = 0, is_rank_private = 1, is_replicated = 2, is_block = 3, is_list = 4
  integer(c_int), parameter :: mode_read = 0, mode_write = 1, mode_read_write = 2, mode_write_some = 3

  !> An array of any type and rank, or a scalar; from backstay_data(x).
  type, bind(C), public :: backstay_data_of
    private
    type(c_ptr) :: first = c_null_ptr
    integer(c_size_t) :: size = 0
    integer(c_int) :: rank = 0, kind = 0
    integer(c_int64_t) :: lengths(15) = 0, distances(15) = 0
  end type

  !> Which part of something larger a region is; from the functions below.
  type, public :: backstay_placement
    private
    integer(c_int) :: kind = by_default
    integer(c_int) :: ndim = 0
    integer(c_int64_t) :: global(most_dimensions) = 0, lower(most_dimensions) = 0, upper(most_dimensions) = 0
  end type
  public :: backstay_rank_private, backstay_replicated, backstay_block, backstay_distributed_list

  !> What a computation does to a region; from the functions below.
  type, public :: backstay_access
    private
    character(:), allocatable :: region
    integer(c_int) :: mode = mode_read
    integer(c_int) :: ndim = 0
    logical :: has_range = .false., has_reach = .false.
    integer(c_int64_t) :: first(most_dimensions) = 0, last(most_dimensions) = 0, below(most_dimensions) = 0, &
      above(most_dimensions) = 0
  end type
  public :: backstay_reads, backstay_writes, backstay_updates, backstay_writes_some

  !> What resume() found. The same on every rank.
  type, public :: backstay_resumed
    logical :: resumed = .false.     !< false: no line at all, a fresh start
    integer(int64) :: line = 0       !< the number of the line that was put back
    character(16) :: level = ""      !< where it was
    real(real64) :: seconds = 0      !< from the call until every rank has its data
    integer :: saved_ranks = 0
  end type

  !> Counters since the session was opened, and the last error of the background. This rank's own.
  type, public :: backstay_counters
    integer(int64) :: calls = 0, taken = 0, skipped = 0
    integer(int64) :: committed = 0, failed = 0   !< lines, each level counted
    integer(int64) :: in_flight = 0, newest_line = 0
    real(real64) :: blocked_seconds = 0
    integer(int64) :: staging_bytes = 0
    integer(int64) :: left_out_bytes = 0          !< of regions that the newest checkpoint did not save
    character(:), allocatable :: last_error       !< empty: none
  end type

  !> What verify() found. The same on every rank.
  type, public :: backstay_verified
    integer(int64) :: lines = 0, segments = 0
    integer(int64) :: damaged = 0                 !< damaged files and segments
  end type

  !> Memory that moves or changes its size, such as an allocatable array: the program extends this type by it.
  type, abstract, public :: backstay_memory
  contains
    procedure(backstay_look), deferred :: look
    procedure(backstay_resize), deferred :: resize
  end type

  abstract interface
    !> At each capture: where the elements are now, dense, and the lengths of the dimensions. Where there are none
    !> `data` may be null. Any stat but 0 means that it cannot; the checkpoint then fails.
    subroutine backstay_look(self, data, lengths, stat)
      import :: backstay_memory, c_ptr, int64
      class(backstay_memory), intent(inout), target :: self
      type(c_ptr), intent(out) :: data
      integer(int64), intent(out) :: lengths(:)
      integer, intent(out) :: stat
    end subroutine
    !> Before elements are put back: makes room for so many, and says where.
    subroutine backstay_resize(self, lengths, data, stat)
      import :: backstay_memory, c_ptr, int64
      class(backstay_memory), intent(inout), target :: self
      integer(int64), intent(in) :: lengths(:)
      type(c_ptr), intent(out) :: data
      integer, intent(out) :: stat
    end subroutine
  end interface
  public :: backstay_look, backstay_resize

  !> What C hands back to look_at() and make_room(), until the session is closed.
  type :: moving
    class(backstay_memory), pointer :: memory => null()
    integer :: ndim = 1
    character(1) :: nothing = ""  ! where no elements lie
    type(moving), pointer :: next => null()
  end type

  type, public :: backstay_session
    private
    type(c_ptr) :: handle = c_null_ptr
    type(moving), pointer :: memories => null()
  contains
    procedure :: open_world, open_comm, open_alone
    !> open([options] [, comm]): on all ranks of MPI_COMM_WORLD, or on those of a communicator.
    generic :: open => open_world, open_comm
    procedure :: close => close_session
    procedure :: rank => rank_of, size => size_of, comm => comm_of, include => include_comm
    procedure :: protect, protect_static, protect_memory, unprotect
    procedure :: declare, begin => begin_computation, end => end_computation
    procedure :: checkpoint, checkpoint_now, resume, replay, init_done, save_only, replaying, result => give_result
    procedure :: loop, init
    procedure :: wait => wait_for_all, verify, prune, stopping, status
  end type

  abstract interface
    !> What loop() and init() run. `stat`: 0 when it is done; after the loss of a rank, any value.
    subroutine backstay_body(run, stat)
      import :: backstay_session
      class(backstay_session), intent(inout) :: run
      integer, intent(out) :: stat
    end subroutine
  end interface
  public :: backstay_body, backstay_version, backstay_data

  type, bind(C) :: c_error
    integer(c_int) :: code = 0
    character(kind=c_char) :: message(1024) = c_null_char
  end type

  type, bind(C) :: c_access
    type(c_ptr) :: region
    integer(c_int) :: mode
    integer(c_int) :: ndim
    type(c_ptr) :: first, last, below, above
  end type

  type, bind(C) :: c_resumed
    integer(c_int) :: resumed
    integer(c_int64_t) :: line
    character(kind=c_char) :: level(16)
    real(c_double) :: seconds
    integer(c_int) :: saved_ranks
  end type

  type, bind(C) :: c_counters
    integer(c_int64_t) :: calls, taken, skipped, committed, failed, in_flight, newest_line
    real(c_double) :: blocked_seconds
    integer(c_int64_t) :: staging_bytes
    character(kind=c_char) :: last_error(1024)
    integer(c_int64_t) :: left_out_bytes
  end type

  type, bind(C) :: c_verified
    integer(c_int64_t) :: lines, segments, damaged
  end type

  !> What C hands back to call_body().
  type :: caller
    class(backstay_session), pointer :: run => null()
    procedure(backstay_body), pointer, nopass :: body => null()
  end type

  interface backstay_data
    procedure :: describe
  end interface

  interface
    function c_version() bind(C, name="backstay_version")
      import :: c_ptr
      type(c_ptr) :: c_version
    end function
    subroutine c_calls_are_unseen() bind(C, name="backstay_calls_are_unseen")
    end subroutine
    integer(c_int) function c_open_world(argc, argv, options, session, error) bind(C, name="backstay_open_world")
      import
      integer(c_int), value :: argc
      type(c_ptr), value :: argv
      type(c_ptr), intent(in) :: options(*)
      type(c_ptr), intent(out) :: session
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_open_alone(options, session, error) bind(C, name="backstay_open_alone")
      import
      type(c_ptr), intent(in) :: options(*)
      type(c_ptr), intent(out) :: session
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_open_comm(comm, options, session, error) bind(C, name="backstay_open_fortran")
      import
      integer(c_int), value :: comm
      type(c_ptr), intent(in) :: options(*)
      type(c_ptr), intent(out) :: session
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_close(session) bind(C, name="backstay_close_fortran")
      import
      type(c_ptr), value :: session
    end function
    integer(c_int) function c_rank(session, rank, error) bind(C, name="backstay_rank")
      import
      type(c_ptr), value :: session
      integer(c_int), intent(inout) :: rank
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_size(session, size, error) bind(C, name="backstay_size")
      import
      type(c_ptr), value :: session
      integer(c_int), intent(inout) :: size
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_comm(session, comm, error) bind(C, name="backstay_comm_fortran")
      import
      type(c_ptr), value :: session
      integer(c_int), intent(inout) :: comm
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_include(session, comm, error) bind(C, name="backstay_include_fortran")
      import
      type(c_ptr), value :: session
      integer(c_int), value :: comm
      type(c_error), intent(inout) :: error
    end function
    type(backstay_data_of) function describe(x) bind(C, name="backstay_fortran_describe")
      import
      type(*), dimension(..), intent(in), target :: x
    end function
    integer(c_int) function c_protect(session, name, x, is_static, units, placement, ndim, global, lower, upper, &
                                      error) bind(C, name="backstay_fortran_protect")
      import
      type(c_ptr), value :: session
      character(kind=c_char), intent(in) :: name(*), units(*)
      type(backstay_data_of), intent(in) :: x
      integer(c_int), value :: is_static, placement, ndim
      integer(c_int64_t), intent(in) :: global(*), lower(*), upper(*)
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_protect_memory(session, name, element, units, placement, ndim, look, resize, user, &
                                             error) bind(C, name="backstay_fortran_protect_memory")
      import
      type(c_ptr), value :: session, user
      character(kind=c_char), intent(in) :: name(*), units(*)
      type(backstay_data_of), intent(in) :: element
      integer(c_int), value :: placement, ndim
      type(c_funptr), value :: look, resize
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_unprotect(session, name, error) bind(C, name="backstay_unprotect")
      import
      type(c_ptr), value :: session
      character(kind=c_char), intent(in) :: name(*)
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_declare(session, name, accesses, count, computation, error) &
        bind(C, name="backstay_declare")
      import
      type(c_ptr), value :: session
      character(kind=c_char), intent(in) :: name(*)
      type(c_access), intent(in) :: accesses(*)
      integer(c_size_t), value :: count
      integer(c_int), intent(inout) :: computation
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_begin(session, computation, error) bind(C, name="backstay_begin")
      import
      type(c_ptr), value :: session
      integer(c_int), value :: computation
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_end(session, error) bind(C, name="backstay_end")
      import
      type(c_ptr), value :: session
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_checkpoint(session, outcome, error) bind(C, name="backstay_checkpoint_fortran")
      import
      type(c_ptr), value :: session
      integer(c_int), intent(inout) :: outcome
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_checkpoint_now(session, outcome, error) bind(C, name="backstay_checkpoint_now_fortran")
      import
      type(c_ptr), value :: session
      integer(c_int), intent(inout) :: outcome
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_resume(session, resumed, error) bind(C, name="backstay_resume")
      import
      type(c_ptr), value :: session
      type(c_resumed), intent(inout) :: resumed
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_replay(session, resumed, error) bind(C, name="backstay_replay")
      import
      type(c_ptr), value :: session
      type(c_resumed), intent(inout) :: resumed
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_init_done(session, error) bind(C, name="backstay_init_done")
      import
      type(c_ptr), value :: session
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_save_only(session, regions, count, error) bind(C, name="backstay_save_only")
      import
      type(c_ptr), value :: session
      type(c_ptr), intent(in) :: regions(*)
      integer(c_size_t), value :: count
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_replaying(session, answer, error) bind(C, name="backstay_replaying")
      import
      type(c_ptr), value :: session
      integer(c_int), intent(inout) :: answer
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_result(session, x, error) bind(C, name="backstay_fortran_result")
      import
      type(c_ptr), value :: session
      type(backstay_data_of), intent(in) :: x
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_loop(session, body, user, error) bind(C, name="backstay_loop")
      import
      type(c_ptr), value :: session, user
      type(c_funptr), value :: body
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_init(session, phase, user, error) bind(C, name="backstay_init")
      import
      type(c_ptr), value :: session, user
      type(c_funptr), value :: phase
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_wait(session, error) bind(C, name="backstay_wait")
      import
      type(c_ptr), value :: session
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_verify(session, verified, hear, user, error) bind(C, name="backstay_verify")
      import
      type(c_ptr), value :: session, user
      type(c_verified), intent(inout) :: verified
      type(c_funptr), value :: hear
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_prune(session, keep, error) bind(C, name="backstay_prune")
      import
      type(c_ptr), value :: session
      integer(c_int), value :: keep
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_stopping(session, answer, error) bind(C, name="backstay_stopping")
      import
      type(c_ptr), value :: session
      integer(c_int), intent(inout) :: answer
      type(c_error), intent(inout) :: error
    end function
    integer(c_int) function c_status(session, counters, error) bind(C, name="backstay_status")
      import
      type(c_ptr), value :: session
      type(c_counters), intent(inout) :: counters
      type(c_error), intent(inout) :: error
    end function
  end interface

contains

  ! ---- texts and errors ---------------------------------------------------------------------------------------------

  function text_of(chars) result(text)
    character(kind=c_char), intent(in) :: chars(:)
    character(:), allocatable :: text
    integer :: length
    length = 0
    do while (length < size(chars))
      if (chars(length + 1) == c_null_char) exit
      length = length + 1
    end do
    allocate (character(length) :: text)
    text = transfer(chars(1:length), text)
  end function

  !> Trimmed, as blanks at the end of a Fortran text say nothing.
  function c_text(text)
    character(*), intent(in) :: text
    character(kind=c_char), allocatable :: c_text(:)
    integer :: i, length
    length = len_trim(text)
    allocate (c_text(length + 1))
    do i = 1, length
      c_text(i) = text(i:i)
    end do
    c_text(length + 1) = c_null_char
  end function

  !> What every procedure ends with.
  subroutine conclude(error, stat, errmsg)
    type(c_error), intent(in) :: error
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (error%code /= 0 .and. present(errmsg)) errmsg = text_of(error%message)
    if (present(stat)) then
      stat = error%code
    else if (error%code /= 0) then
      write (error_unit, "(a)") "backstay: " // text_of(error%message)
      error stop 1
    end if
  end subroutine

  !> The version of the library: "0.1.0".
  function backstay_version() result(text)
    character(:), allocatable :: text
    character(kind=c_char), pointer :: chars(:)
    call c_f_pointer(c_version(), chars, [32])
    text = text_of(chars)
  end function

  ! ---- open and close -----------------------------------------------------------------------------------------------

  !> Texts "name=value" and a pointer to each that is not blank, then a null pointer. What is given for `chars`
  !> is a target, too.
  subroutine list_options(options, chars, pointers)
    character(*), intent(in), optional :: options(:)
    character(kind=c_char), allocatable, target, intent(out) :: chars(:, :)
    type(c_ptr), allocatable, intent(out) :: pointers(:)
    integer :: i, count
    count = 0
    if (present(options)) count = size(options)
    allocate (pointers(count + 1))
    pointers = c_null_ptr
    if (count == 0) return
    allocate (chars(len(options) + 1, count))
    count = 0
    do i = 1, size(options)
      if (len_trim(options(i)) == 0) cycle
      count = count + 1
      chars(:len_trim(adjustl(options(i))) + 1, count) = c_text(adjustl(options(i)))
      pointers(count) = c_loc(chars(1, count))
    end do
  end subroutine

  logical function is_open(self, error)
    class(backstay_session), intent(in) :: self
    type(c_error), intent(inout) :: error
    character(*), parameter :: sentence = "open was called for a session that is open: close it before"
    is_open = c_associated(self%handle)
    if (.not. is_open) return
    error%code = backstay_invalid_argument
    error%message(:len(sentence) + 1) = c_text(sentence)
  end function

  !> On all ranks of MPI_COMM_WORLD. Initialises MPI unless it was; then close() finalises it.
  !> options: texts "name=value", as in [character(32) :: "levels=shared", "interval=60"]; they win over BACKSTAY_*.
  !> Blanks around a text mean nothing; neither does one that is blank.
  subroutine open_world(self, options, stat, errmsg)
    class(backstay_session), intent(inout) :: self
    character(*), intent(in), optional :: options(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: chars(:, :)
    type(c_ptr), allocatable :: pointers(:)
    type(c_error) :: error
    integer(c_int) :: code
    call list_options(options, chars, pointers)
    call c_calls_are_unseen()
    if (.not. is_open(self, error)) code = c_open_world(0_c_int, c_null_ptr, pointers, self%handle, error)
    call conclude(error, stat, errmsg)
  end subroutine

  !> comm: the handle of a communicator, of mpi_f08 its component MPI_VAL.
  subroutine open_comm(self, comm, options, stat, errmsg)
    class(backstay_session), intent(inout) :: self
    integer, intent(in) :: comm
    character(*), intent(in), optional :: options(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: chars(:, :)
    type(c_ptr), allocatable :: pointers(:)
    type(c_error) :: error
    integer(c_int) :: code
    call list_options(options, chars, pointers)
    call c_calls_are_unseen()
    if (.not. is_open(self, error)) code = c_open_comm(int(comm, c_int), pointers, self%handle, error)
    call conclude(error, stat, errmsg)
  end subroutine

  !> This process alone: MPI is neither used nor initialised.
  subroutine open_alone(self, options, stat, errmsg)
    class(backstay_session), intent(inout) :: self
    character(*), intent(in), optional :: options(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: chars(:, :)
    type(c_ptr), allocatable :: pointers(:)
    type(c_error) :: error
    integer(c_int) :: code
    call list_options(options, chars, pointers)
    if (.not. is_open(self, error)) code = c_open_alone(pointers, self%handle, error)
    call conclude(error, stat, errmsg)
  end subroutine

  !> Waits, bounded by the option timeout, for what is in flight. Of a session that is not open: nothing. Within a
  !> function that the session itself has called: nothing, with a sentence; close it behind that call.
  subroutine close_session(self)
    class(backstay_session), intent(inout) :: self
    type(moving), pointer :: memory
    if (c_close(self%handle) /= 0) return
    self%handle = c_null_ptr
    do while (associated(self%memories))
      memory => self%memories
      self%memories => memory%next
      deallocate (memory)
    end do
  end subroutine

  integer function rank_of(self, stat, errmsg)
    class(backstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code, rank
    rank = -1
    code = c_rank(self%handle, rank, error)
    rank_of = rank
    call conclude(error, stat, errmsg)
  end function

  integer function size_of(self, stat, errmsg)
    class(backstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code, count
    count = 0
    code = c_size(self%handle, count, error)
    size_of = count
    call conclude(error, stat, errmsg)
  end function

  !> The communicator to use in the program: as many ranks as work on the problem.
  integer function comm_of(self, stat, errmsg)
    class(backstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code, comm
    comm = 0
    code = c_comm(self%handle, comm, error)
    comm_of = comm
    call conclude(error, stat, errmsg)
  end function

  !> Every communicator that the program made from comm(), which backstay does not see in Fortran: a rank that waits in
  !> it is woken when another is lost.
  subroutine include_comm(self, comm, stat, errmsg)
    class(backstay_session), intent(in) :: self
    integer, intent(in) :: comm
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code
    code = c_include(self%handle, int(comm, c_int), error)
    call conclude(error, stat, errmsg)
  end subroutine

  ! ---- what is protected --------------------------------------------------------------------------------------------

  !> Belongs to this rank; comes back only on the same number of ranks. What arrays are by default.
  pure type(backstay_placement) function backstay_rank_private() result(placement)
    placement%kind = is_rank_private
  end function

  !> The same on every rank; comes back on any number of ranks. What scalars are by default.
  pure type(backstay_placement) function backstay_replicated() result(placement)
    placement%kind = is_replicated
  end function

  !> A piece of a list whose order is rank order; its total is re-split.
  pure type(backstay_placement) function backstay_distributed_list() result(placement)
    placement%kind = is_list
  end function

  !> The elements lower(1):upper(1), ... of a global array, as many as the region has.
  pure type(backstay_placement) function backstay_block(global, lower, upper) result(placement)
    integer, intent(in) :: global(:), lower(:), upper(:)
    integer :: n
    n = min(size(global), size(lower), size(upper), most_dimensions)
    placement%kind = is_block
    placement%ndim = n
    ! Arrays of different lengths: none that a region could have.
    if (size(global) /= n .or. size(lower) /= n .or. size(upper) /= n) placement%ndim = 0
    placement%global(:n) = global(:n)
    placement%lower(:n) = lower(:n)
    placement%upper(:n) = upper(:n)
  end function

  subroutine protect_as(self, name, x, is_static, placement, units, stat, errmsg)
    class(backstay_session), intent(in) :: self
    character(*), intent(in) :: name
    type(backstay_data_of), intent(in) :: x
    integer(c_int), intent(in) :: is_static
    type(backstay_placement), intent(in), optional :: placement
    character(*), intent(in), optional :: units
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(backstay_placement) :: as
    type(c_error) :: error
    integer(c_int) :: code
    character(kind=c_char), allocatable :: unit_text(:)
    if (present(placement)) as = placement
    unit_text = c_text("")
    if (present(units)) unit_text = c_text(units)
    code = c_protect(self%handle, c_text(name), x, is_static, unit_text, as%kind, as%ndim, as%global, as%lower, &
                     as%upper, error)
    call conclude(error, stat, errmsg)
  end subroutine

  !> Adds a region: a scalar, an array or a part of one with strides, of any type. What has no type that files know (a
  !> derived type, a real of 16 bytes) is kept as bytes. units as in UDUNITS, "m s-1".
  subroutine protect(self, name, x, placement, units, stat, errmsg)
    class(backstay_session), intent(in) :: self
    character(*), intent(in) :: name
    type(backstay_data_of), intent(in) :: x
    type(backstay_placement), intent(in), optional :: placement
    character(*), intent(in), optional :: units
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call protect_as(self, name, x, 0_c_int, placement, units, stat, errmsg)
  end subroutine

  !> The same for data that do not change from the first checkpoint on: they are written once at each level.
  subroutine protect_static(self, name, x, placement, units, stat, errmsg)
    class(backstay_session), intent(in) :: self
    character(*), intent(in) :: name
    type(backstay_data_of), intent(in) :: x
    type(backstay_placement), intent(in), optional :: placement
    character(*), intent(in), optional :: units
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call protect_as(self, name, x, 1_c_int, placement, units, stat, errmsg)
  end subroutine

  integer(c_int) function look_at(user, data, shape) bind(C)
    type(c_ptr), value :: user
    type(c_ptr), intent(out) :: data
    integer(c_int64_t), intent(inout) :: shape(*)
    type(moving), pointer :: box
    integer(int64) :: lengths(most_dimensions)
    integer :: stat
    call c_f_pointer(user, box)
    call box%memory%look(data, lengths(:box%ndim), stat)
    shape(:box%ndim) = lengths(box%ndim:1:-1)
    look_at = stat
    if (stat /= 0 .or. c_associated(data)) return
    data = c_loc(box%nothing)
    if (all(lengths(:box%ndim) /= 0)) look_at = 1  ! elements that are nowhere
  end function

  integer(c_int) function make_room(user, shape, data) bind(C)
    type(c_ptr), value :: user
    integer(c_int64_t), intent(in) :: shape(*)
    type(c_ptr), intent(out) :: data
    type(moving), pointer :: box
    integer :: stat
    call c_f_pointer(user, box)
    call box%memory%resize(shape(box%ndim:1:-1), data, stat)
    make_room = stat
    if (stat /= 0 .or. c_associated(data)) return
    data = c_loc(box%nothing)
    if (all(shape(:box%ndim) /= 0)) make_room = 1
  end function

  !> Adds a region whose memory moves or changes its size: an array of `ndim` dimensions (1 if not given) of elements
  !> such as `element`. It comes back with the lengths that were saved, or, as a distributed list, with a share of all.
  subroutine protect_memory(self, name, memory, element, ndim, placement, units, stat, errmsg)
    class(backstay_session), intent(inout) :: self
    character(*), intent(in) :: name
    class(backstay_memory), intent(in), target :: memory
    type(backstay_data_of), intent(in) :: element
    integer, intent(in), optional :: ndim
    type(backstay_placement), intent(in), optional :: placement
    character(*), intent(in), optional :: units
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(backstay_placement) :: as
    type(c_error) :: error
    integer(c_int) :: code
    character(kind=c_char), allocatable :: unit_text(:)
    type(moving), pointer :: box
    if (present(placement)) as = placement
    unit_text = c_text("")
    if (present(units)) unit_text = c_text(units)
    allocate (box)
    box%memory => memory
    if (present(ndim)) box%ndim = ndim
    code = c_protect_memory(self%handle, c_text(name), element, unit_text, as%kind, int(box%ndim, c_int), &
                            c_funloc(look_at), c_funloc(make_room), c_loc(box), error)
    if (error%code == 0) then
      box%next => self%memories
      self%memories => box
    else
      deallocate (box)
    end if
    call conclude(error, stat, errmsg)
  end subroutine

  subroutine unprotect(self, name, stat, errmsg)
    class(backstay_session), intent(in) :: self
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code
    code = c_unprotect(self%handle, c_text(name), error)
    call conclude(error, stat, errmsg)
  end subroutine

  ! ---- declared computations ----------------------------------------------------------------------------------------

  !> Bounds of different lengths, or of one end only, make `ndim` one that no region has: declare() refuses it.
  subroutine set_bounds(ndim, bounds, values, are_needed)
    integer(c_int), intent(inout) :: ndim
    integer(c_int64_t), intent(inout) :: bounds(most_dimensions)
    integer, intent(in), optional :: values(:)
    logical, intent(in) :: are_needed
    if (.not. are_needed) return
    if (.not. present(values)) then
      ndim = -1
    else if (size(values) > most_dimensions .or. (ndim /= 0 .and. ndim /= size(values))) then
      ndim = -1
    else
      ndim = size(values)
      bounds(:ndim) = values
    end if
  end subroutine

  function access_to(region, mode, first, last, below, above) result(access)
    character(*), intent(in) :: region
    integer(c_int), intent(in) :: mode
    integer, intent(in), optional :: first(:), last(:), below(:), above(:)
    type(backstay_access) :: access
    access%region = region
    access%mode = mode
    access%has_range = present(first) .or. present(last)
    access%has_reach = present(below) .or. present(above)
    call set_bounds(access%ndim, access%first, first, access%has_range)
    call set_bounds(access%ndim, access%last, last, access%has_range)
    call set_bounds(access%ndim, access%below, below, access%has_reach)
    call set_bounds(access%ndim, access%above, above, access%has_reach)
  end function

  !> All of the region, or first:last of it; with a stencil also what lies up to `below` (0 or less) and `above` of
  !> that.
  function backstay_reads(region, first, last, below, above) result(access)
    character(*), intent(in) :: region
    integer, intent(in), optional :: first(:), last(:), below(:), above(:)
    type(backstay_access) :: access
    access = access_to(region, mode_read, first, last, below, above)
  end function

  !> All of the range, whatever it held.
  function backstay_writes(region, first, last) result(access)
    character(*), intent(in) :: region
    integer, intent(in), optional :: first(:), last(:)
    type(backstay_access) :: access
    access = access_to(region, mode_write, first, last)
  end function

  !> All of the range, after reading it.
  function backstay_updates(region, first, last, below, above) result(access)
    character(*), intent(in) :: region
    integer, intent(in), optional :: first(:), last(:), below(:), above(:)
    type(backstay_access) :: access
    access = access_to(region, mode_read_write, first, last, below, above)
  end function

  !> Some elements of the range, nobody says which.
  function backstay_writes_some(region, first, last) result(access)
    character(*), intent(in) :: region
    integer, intent(in), optional :: first(:), last(:)
    type(backstay_access) :: access
    access = access_to(region, mode_write_some, first, last)
  end function

  !> Says what a computation reads and overwrites of protected regions: see backstay_declare() in backstay.h. Every rank
  !> declares the same computations in the same order; ranges may differ.
  subroutine declare(self, name, accesses, computation, stat, errmsg)
    class(backstay_session), intent(in) :: self
    character(*), intent(in) :: name
    type(backstay_access), intent(in) :: accesses(:)
    integer, intent(out) :: computation
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_access) :: list(max(1, size(accesses)))
    integer(c_int64_t), target :: bounds(most_dimensions, 4, max(1, size(accesses)))
    character(kind=c_char), allocatable, target :: names(:, :)
    type(c_error) :: error
    integer(c_int) :: code, number
    integer :: i, d, longest
    longest = 0
    do i = 1, size(accesses)
      longest = max(longest, len_trim(accesses(i)%region))
    end do
    allocate (names(longest + 1, max(1, size(accesses))))
    do i = 1, size(accesses)
      names(:len_trim(accesses(i)%region) + 1, i) = c_text(accesses(i)%region)
      list(i) = c_access(c_loc(names(1, i)), accesses(i)%mode, accesses(i)%ndim, c_null_ptr, c_null_ptr, c_null_ptr, &
                         c_null_ptr)
      do d = 1, accesses(i)%ndim
        bounds(accesses(i)%ndim + 1 - d, :, i) = [accesses(i)%first(d) - 1, accesses(i)%last(d), &
                                                  accesses(i)%below(d), accesses(i)%above(d)]
      end do
      if (accesses(i)%has_range) list(i)%first = c_loc(bounds(1, 1, i))
      if (accesses(i)%has_range) list(i)%last = c_loc(bounds(1, 2, i))
      if (accesses(i)%has_reach) list(i)%below = c_loc(bounds(1, 3, i))
      if (accesses(i)%has_reach) list(i)%above = c_loc(bounds(1, 4, i))
    end do
    number = -1
    code = c_declare(self%handle, c_text(name), list, int(size(accesses), c_size_t), number, error)
    computation = number
    call conclude(error, stat, errmsg)
  end subroutine

  !> The computation follows. While replaying() it is to be skipped.
  subroutine begin_computation(self, computation, stat, errmsg)
    class(backstay_session), intent(in) :: self
    integer, intent(in) :: computation
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code
    code = c_begin(self%handle, int(computation, c_int), error)
    call conclude(error, stat, errmsg)
  end subroutine

  !> It has ended, as it does with the next call of backstay.
  subroutine end_computation(self, stat, errmsg)
    class(backstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code
    code = c_end(self%handle, error)
    call conclude(error, stat, errmsg)
  end subroutine

  ! ---- checkpoint and resume ----------------------------------------------------------------------------------------

  !> Takes a checkpoint if one is due. Returns after the capture; no barrier. outcome: backstay_not_due and so on; of
  !> backstay_stop a program that does not ask for it hears from stopping().
  subroutine checkpoint(self, outcome, stat, errmsg)
    class(backstay_session), intent(in) :: self
    integer, intent(out), optional :: outcome
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code, did
    did = backstay_failed
    code = c_checkpoint(self%handle, did, error)
    if (present(outcome)) outcome = did
    call conclude(error, stat, errmsg)
  end subroutine

  !> Takes one now; waits for staging memory if an earlier one is still in flight.
  subroutine checkpoint_now(self, outcome, stat, errmsg)
    class(backstay_session), intent(in) :: self
    integer, intent(out), optional :: outcome
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code, did
    did = backstay_failed
    code = c_checkpoint_now(self%handle, did, error)
    if (present(outcome)) outcome = did
    call conclude(error, stat, errmsg)
  end subroutine

  pure type(backstay_resumed) function resumed_of(from)
    type(c_resumed), intent(in) :: from
    integer :: i
    resumed_of%resumed = from%resumed /= 0
    resumed_of%line = from%line
    do i = 1, 16
      if (from%level(i) == c_null_char) exit
      resumed_of%level(i:i) = from%level(i)
    end do
    resumed_of%seconds = from%seconds
    resumed_of%saved_ranks = from%saved_ranks
  end function

  !> Puts back the newest whole line, if there is one.
  subroutine resume(self, resumed, stat, errmsg)
    class(backstay_session), intent(in) :: self
    type(backstay_resumed), intent(out), optional :: resumed
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_resumed) :: found
    type(c_error) :: error
    integer(c_int) :: code
    found = c_resumed(0, 0, c_null_char, 0, 0)
    code = c_resume(self%handle, found, error)
    if (present(resumed)) resumed = resumed_of(found)
    call conclude(error, stat, errmsg)
  end subroutine

  !> In place of resume(), by programs that declare all of their computations: see backstay_replay() in backstay.h.
  subroutine replay(self, resumed, stat, errmsg)
    class(backstay_session), intent(in) :: self
    type(backstay_resumed), intent(out), optional :: resumed
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_resumed) :: found
    type(c_error) :: error
    integer(c_int) :: code
    found = c_resumed(0, 0, c_null_char, 0, 0)
    code = c_replay(self%handle, found, error)
    if (present(resumed)) resumed = resumed_of(found)
    call conclude(error, stat, errmsg)
  end subroutine

  !> The beginning of the program ends here: a replay runs its computations again.
  subroutine init_done(self, stat, errmsg)
    class(backstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code
    code = c_init_done(self%handle, error)
    call conclude(error, stat, errmsg)
  end subroutine

  !> From the next checkpoint on a line holds these regions and no others (but static ones), captured at once; none: what
  !> computations decide. What no computation uses must be among them. The same on every rank.
  subroutine save_only(self, regions, stat, errmsg)
    class(backstay_session), intent(in) :: self
    character(*), intent(in) :: regions(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: names(:, :)
    type(c_ptr) :: list(max(1, size(regions)))
    type(c_error) :: error
    integer(c_int) :: code
    integer :: i
    allocate (names(len(regions) + 1, max(1, size(regions))))
    do i = 1, size(regions)
      names(:len_trim(regions(i)) + 1, i) = c_text(regions(i))
      list(i) = c_loc(names(1, i))
    end do
    code = c_save_only(self%handle, list, int(size(regions), c_size_t), error)
    call conclude(error, stat, errmsg)
  end subroutine

  !> Whether computations are skipped.
  logical function replaying(self, stat, errmsg)
    class(backstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code, answer
    answer = 0
    code = c_replaying(self%handle, answer, error)
    replaying = answer /= 0
    call conclude(error, stat, errmsg)
  end function

  !> The value decides on the way, and may be another the next time: results of computations and of reductions, clocks,
  !> random numbers. A replay gives back what it was; without one nothing happens. A scalar or an array in one piece.
  subroutine give_result(self, value, stat, errmsg)
    class(backstay_session), intent(in) :: self
    type(backstay_data_of), intent(in) :: value
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code
    code = c_result(self%handle, value, error)
    call conclude(error, stat, errmsg)
  end subroutine

  ! ---- losses of ranks ----------------------------------------------------------------------------------------------

  integer(c_int) function call_body(user) bind(C)
    type(c_ptr), value :: user
    type(caller), pointer :: call_of
    integer :: stat
    call c_f_pointer(user, call_of)
    call call_of%body(call_of%run, stat)
    call_body = stat
  end function

  !> Runs `body`, which begins with resume(), and runs it again from its start when a rank was lost and the option
  !> spares is set. After a loss the calls in it give stat = backstay_rank_lost, and MPI calls in comm() an error: the
  !> body returns then, with any stat. See backstay_loop() in backstay.h.
  subroutine loop(self, body, stat, errmsg)
    class(backstay_session), intent(inout), target :: self
    procedure(backstay_body) :: body
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(caller), target :: call_of
    type(c_error) :: error
    integer(c_int) :: code
    call_of%run => self
    call_of%body => body
    code = c_loop(self%handle, c_funloc(call_body), c_loc(call_of), error)
    call conclude(error, stat, errmsg)
  end subroutine

  !> Before loop(): runs `phase`, in which the program sets itself up. With the option spares it is refused in Fortran,
  !> whose MPI calls go past the library that would record them.
  subroutine init(self, phase, stat, errmsg)
    class(backstay_session), intent(inout), target :: self
    procedure(backstay_body) :: phase
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(caller), target :: call_of
    type(c_error) :: error
    integer(c_int) :: code
    call_of%run => self
    call_of%body => phase
    code = c_init(self%handle, c_funloc(call_body), c_loc(call_of), error)
    call conclude(error, stat, errmsg)
  end subroutine

  ! ---- looking after lines ------------------------------------------------------------------------------------------

  !> Waits until everything captured is committed or given up.
  subroutine wait_for_all(self, stat, errmsg)
    class(backstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code
    code = c_wait(self%handle, error)
    call conclude(error, stat, errmsg)
  end subroutine

  !> Reads every byte of every line at every level and checks its CRC. Damage is no failure of the call.
  subroutine verify(self, verified, stat, errmsg)
    class(backstay_session), intent(in) :: self
    type(backstay_verified), intent(out) :: verified
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_verified) :: found
    type(c_error) :: error
    integer(c_int) :: code
    found = c_verified(0, 0, 0)
    code = c_verify(self%handle, found, c_null_funptr, c_null_ptr, error)
    verified = backstay_verified(found%lines, found%segments, found%damaged)
    call conclude(error, stat, errmsg)
  end subroutine

  !> Removes all but the newest `keep` (1 or more) whole lines of every level.
  subroutine prune(self, keep, stat, errmsg)
    class(backstay_session), intent(in) :: self
    integer, intent(in) :: keep
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code
    code = c_prune(self%handle, int(keep, c_int), error)
    call conclude(error, stat, errmsg)
  end subroutine

  !> Whether a signal has asked the job to end: the same on every rank at the same call of checkpoint().
  logical function stopping(self, stat, errmsg)
    class(backstay_session), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code, answer
    answer = 0
    code = c_stopping(self%handle, answer, error)
    stopping = answer /= 0
    call conclude(error, stat, errmsg)
  end function

  subroutine status(self, counters, stat, errmsg)
    class(backstay_session), intent(in) :: self
    type(backstay_counters), intent(out) :: counters
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_counters) :: found
    type(c_error) :: error
    integer(c_int) :: code
    found = c_counters(0, 0, 0, 0, 0, 0, 0, 0, 0, c_null_char, 0)
    code = c_status(self%handle, found, error)
    counters%calls = found%calls
    counters%taken = found%taken
    counters%skipped = found%skipped
    counters%committed = found%committed
    counters%failed = found%failed
    counters%in_flight = found%in_flight
    counters%newest_line = found%newest_line
    counters%blocked_seconds = found%blocked_seconds
    counters%staging_bytes = found%staging_bytes
    counters%left_out_bytes = found%left_out_bytes
    counters%last_error = text_of(found%last_error)
    call conclude(error, stat, errmsg)
  end subroutine

end module
