! planted_fortran: the same in Fortran. A line on which an array is allocated ends with its name.
program planted_fortran
  use, intrinsic :: iso_fortran_env, only: real64
  use backstay
  implicit none
  type(backstay_session) :: run
  integer, parameter :: n = 20000, steps = 6
  real(real64), allocatable :: state(:), scratch(:, :)
  integer :: step, outcome

  call run%open([character(16) :: "every=100"])
  allocate (state(n))  ! state
  allocate (scratch(n / 100, 100))  ! scratch
  state = 1
  scratch = 1
  call run%resume()
  do step = 1, steps
    call run%checkpoint(outcome)
    if (outcome == backstay_stop) exit
    scratch(:, :) = 0.5_real64 * reshape(state, [n / 100, 100])
    state(:) = state + reshape(scratch, [n])
  end do
  if (command_argument_count() > 0) then  ! a second loop, which reads what the first one overwrites
    do step = 1, steps
      call run%checkpoint(outcome)
      if (outcome == backstay_stop) exit
      state(:) = state + reshape(scratch, [n])
    end do
  end if
  print "(a, es24.17)", "sum ", sum(state)
  call run%close()
end program
