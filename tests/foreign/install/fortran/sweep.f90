! A Fortran program outside the repository: reverses 50 steps of u(ts) = 3 ts + 1 with 6 snapshots
! and a device cache, and checks every state. Module gpuzip_gradient is installed, too.
program sweep
  use gpuzip
  use gpuzip_gradient, only: gpuzip_dot_t, gpuzip_dot
  implicit none
  integer, parameter :: steps = 50
  real(8), target :: u(4, 3) = 1
  integer :: reversed = 0
  type(gpuzip_config_t) :: config
  type(gpuzip_action_t) :: action
  type(gpuzip_t) :: session
  type(gpuzip_dot_t) :: test

  call gpuzip_config_init(config)
  config%checkpointing_algorithm = gpuzip_algorithm_revolve
  config%checkpointing_snaps = 6
  config%cache_capacity = 2
  call gpuzip_init(config, steps, [gpuzip_field(u)], session)
  do
    call gpuzip_get_action(session, action)
    if (action%type == gpuzip_action_forward) u = u + 3
    if (action%type == gpuzip_action_save) call gpuzip_save(session, action%ts, u)
    if (action%type == gpuzip_action_restore) call gpuzip_retrieve(session, action%ts, u)
    if (action%type == gpuzip_action_backward .and. all(u == 3 * action%ts + 1)) reversed = reversed + 1
    if (action%type == gpuzip_action_terminate) exit
  end do
  call gpuzip_finalize(session)
  if (reversed /= steps) error stop 'wrong state'
  test = gpuzip_dot(1.0d0, 1.0d0, 0.0d0)
  if (.not. test%passed) error stop 'wrong test'
  print '(a)', 'ok'
end program
