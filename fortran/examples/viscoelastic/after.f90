! The gradient of viscoelastic waveform inversion with snapshots in gpuzip: after FILE writes it.
program after
  use gpuzip
  use viscoelastic_waves
  implicit none
  type(state_t), target :: u
  type(state_t) :: adjoint
  type(gpuzip_config_t) :: config
  type(gpuzip_action_t) :: action
  type(gpuzip_field_t), allocatable :: fields(:)
  type(gpuzip_t) :: session

  call begin()
  call rest(u)
  call rest(adjoint)
  fields = [inside(u%vx), inside(u%vz), inside(u%txx), inside(u%tzz), inside(u%txz), inside(u%rxx), inside(u%rzz), inside(u%rxz)]
  call gpuzip_config_load(config) ! the environment sets budgets and codec
  call gpuzip_init(config, steps, fields, session)
  do
    call gpuzip_get_action(session, action)
    select case (action%type)
    case (gpuzip_action_forward)
      call step(u, action%ts - 1)
    case (gpuzip_action_save)
      call gpuzip_save(session, action%ts, fields)
    case (gpuzip_action_restore)
      call gpuzip_retrieve(session, action%ts, fields)
    case (gpuzip_action_backward)
      call adjoint_step(u, adjoint, action%ts)
    case (gpuzip_action_terminate)
      exit
    end select
  end do
  call gpuzip_finalize(session)
  call finish()

contains

  ! The field without the walls, whose zeros even a lossy codec then leaves alone.
  type(gpuzip_field_t) function inside(x)
    real(wp), intent(in), target :: x(:, :)
    inside = gpuzip_field(x(2:nz - 1, 2:nx - 1))
  end function
end program
