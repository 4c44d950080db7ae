! Migration of a shot with gpuzip: all that checkpointing adds to a time loop.
module checkpoint
  use gpuzip
  use shot
  implicit none

contains

  ! Opens a session for `survey%steps` steps of the wavefield `u`, configured by the file `config`
  ! (none if blank) and by GPUZIP_* environment variables.
  subroutine checkpoint_open(session, config, survey, u)
    type(gpuzip_t), intent(inout) :: session
    character(*), intent(in) :: config
    type(survey_t), intent(in) :: survey
    type(wavefield_t), intent(in) :: u
    type(gpuzip_config_t) :: settings
    call gpuzip_config_load(settings, config)
    settings%range_actions = 0  ! the loop below takes one step per action
    settings%adjoint_every = 0  ! and images every state
    ! role=1 declares prev as the previous time level of curr. A lossy codec then also bounds the
    ! error of their difference, which acts as a velocity.
    call gpuzip_init(settings, survey%steps, [gpuzip_field(u%curr), gpuzip_field(u%prev, role=1)], session)
    call gpuzip_config_free(settings)
  end subroutine

  ! The checkpointing loop: does what each action says, until TERMINATE. Without `stat` an error
  ! ends the program.
  subroutine migrate(session, this, medium, survey, image)
    type(gpuzip_t), intent(in) :: session
    type(shot_t), intent(inout) :: this
    type(medium_t), intent(in) :: medium
    type(survey_t), intent(in) :: survey
    type(image_t), intent(inout) :: image
    type(gpuzip_action_t) :: action
    call gpuzip_setup(session)
    call shot_begin(this)
    do
      call gpuzip_get_action(session, action)
      select case (action%type)
      case (gpuzip_action_forward)
        call shot_forward(this, medium, survey, action%ts)
        if (.not. gpuzip_has_flag(action, gpuzip_flag_recompute)) &
          call record(medium%grid, this%u%curr, this%synthetic(:, :, action%ts))
      case (gpuzip_action_save)
        call gpuzip_save(session, action%ts, this%u%curr, this%u%prev)
      case (gpuzip_action_restore)
        call gpuzip_retrieve(session, action%ts, this%u%curr, this%u%prev)
        call clear_halo(this%u%curr)  ! a lossy snapshot may have other values there
        call clear_halo(this%u%prev)
      case (gpuzip_action_backward)
        call shot_backward(this, medium, survey, action%ts, image)
      case (gpuzip_action_terminate)
        return
      end select
    end do
  end subroutine
end module
