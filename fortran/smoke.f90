! A test of gpuzip from Fortran: smoke [steps [algorithm [snapshots [cache]]]] runs three shots of a
! state with a double and a single precision field. At every BACKWARD it compares the state, bit for
! bit, with the state computed again from the start. Default arguments: 60 steps, Revolve (1;
! gpuzip.h has the numbers of the others), 8 snapshots and a cache of 3 slots.
program smoke
  use gpuzip
  use, intrinsic :: iso_c_binding
  implicit none
  real(c_double), target :: u(17, 9), u0(17, 9)
  real(c_float), target :: v(17, 9), v0(17, 9)
  type(gpuzip_config_t) :: config
  type(gpuzip_action_t) :: action
  type(gpuzip_t) :: session
  type(gpuzip_field_t) :: fields(2)
  character(16) :: text
  integer(c_int32_t) :: argument(4) = [60, 1, 8, 3], steps, shot, ts
  integer :: i, status, reversed = 0

  do i = 1, min(command_argument_count(), 4)
    call get_command_argument(i, text, status=status)
    if (status == 0) read (text, *, iostat=status) argument(i)
    if (status /= 0) error stop 'smoke: wants whole numbers: smoke [steps [algorithm [snapshots [cache]]]]'
  end do
  if (command_argument_count() > 4) error stop 'smoke: wants four numbers at most: smoke [steps [algorithm [snapshots [cache]]]]'
  steps = argument(1)
  call gpuzip_config_init(config)
  config%checkpointing_algorithm = argument(2)
  config%checkpointing_snaps = argument(3)
  config%cache_capacity = argument(4)
  fields = [gpuzip_field(u), gpuzip_field(v)]
  call gpuzip_init(config, steps, fields, session)
  do shot = 1, 3
    call gpuzip_setup(session)
    call start(u, v)
    do
      call gpuzip_get_action(session, action)
      select case (action%type)
      case (gpuzip_action_forward)
        call step(u, v)
      case (gpuzip_action_save)
        call gpuzip_save(session, action%ts, fields)
      case (gpuzip_action_restore)
        call gpuzip_retrieve(session, action%ts, fields)
      case (gpuzip_action_backward)
        call start(u0, v0)
        do ts = 1, action%ts
          call step(u0, v0)
        end do
        if (any(transfer(u, [0_c_int64_t]) /= transfer(u0, [0_c_int64_t]))) error stop 'DIFFERENT'
        if (any(transfer(v, [0_c_int32_t]) /= transfer(v0, [0_c_int32_t]))) error stop 'DIFFERENT'
        reversed = reversed + 1
        u = huge(u)
        v = huge(v)
      case (gpuzip_action_terminate)
        exit
      end select
    end do
  end do
  call gpuzip_finalize(session)
  if (reversed /= 3 * steps) error stop 'steps are missing'
  print '(a)', 'identical'

contains

  subroutine start(u, v)
    real(c_double), intent(out) :: u(:, :)
    real(c_float), intent(out) :: v(:, :)
    u = 0
    u(1 + shot, 2) = 1 / 3.0_c_double
    v = 0.1_c_float * real(shot, c_float)
  end subroutine

  subroutine step(u, v)
    real(c_double), intent(inout) :: u(:, :)
    real(c_float), intent(inout) :: v(:, :)
    u = u + 0.2_c_double * (cshift(u, 1, 1) + cshift(u, 1, 2) - 2 * u)
    v = 0.9_c_float * v + real(cshift(u, -1, 1), c_float)
  end subroutine
end program
