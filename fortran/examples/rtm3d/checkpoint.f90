! Migration of a shot with gpuzip: all that checkpointing adds to a time loop.
module checkpoint
  use gpuzip
  use shot
  implicit none

contains

  ! Opens a session for `survey%steps` steps of the wavefield `u`, configured by the file `config`
  ! (none if blank) and by GPUZIP_* environment variables. `zero_copy`: whether states lie in memory of
  ! the session; set if the configuration asks for it.
  subroutine checkpoint_open(session, config, zero_copy, survey, u)
    type(gpuzip_t), intent(inout) :: session
    character(*), intent(in) :: config
    logical, intent(inout) :: zero_copy
    type(survey_t), intent(in) :: survey
    type(wavefield_t), intent(in) :: u
    type(gpuzip_config_t) :: settings
    call gpuzip_config_load(settings, config)
    if (zero_copy) settings%zero_copy = 1
    zero_copy = settings%zero_copy == 1
    settings%range_actions = settings%zero_copy  ! migrate takes one step per action, migrate_in_slots a range
    settings%adjoint_every = 0  ! both loops image every state
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

  ! The checkpointing loop with zero copy. c-examples/rtm3d/handed.h says where a step writes.
  subroutine migrate_in_slots(session, this, medium, survey, image)
    type(gpuzip_t), intent(in) :: session
    type(shot_t), intent(inout) :: this
    type(medium_t), intent(in) :: medium
    type(survey_t), intent(in) :: survey
    type(image_t), intent(inout) :: image
    type(gpuzip_action_t) :: action
    type(gpuzip_summary_t) :: plan
    type(gpuzip_field_t) :: fields(2)
    type(wavefield_t) :: own, slot, held  ! the program's buffers, the slot of the next SAVE, the last snapshot
    integer :: held_ts
    call gpuzip_setup(session)
    call gpuzip_summary(session, plan)
    call shot_begin(this)
    own = this%u
    fields = [gpuzip_field(own%curr), gpuzip_field(own%prev, role=1)]
    nullify (slot%curr, held%curr)
    do
      call gpuzip_get_action(session, action)
      select case (action%type)
      case (gpuzip_action_forward)
        call forward
      case (gpuzip_action_save)
        if (.not. associated(slot%curr)) then
          call ask_for_slot(action%ts)  ! u(0), which no step has computed
          slot%curr = this%u%curr
          slot%prev = this%u%prev
          this%u = slot
        end if
        call gpuzip_save_commit(session, action%ts)
        nullify (slot%curr, held%curr)
      case (gpuzip_action_restore)
        call gpuzip_retrieve_acquire(session, action%ts, fields)
        call view(held)
        held_ts = action%ts
        this%u = held
        if (plan%compressor /= gpuzip_compressor_none) then
          call clear_halo(held%curr)  ! a decoded copy, to which the program may write
          call clear_halo(held%prev)
        end if
      case (gpuzip_action_backward)
        call shot_backward(this, medium, survey, action%ts, image)
        call give_back
      case (gpuzip_action_terminate)
        exit
      end select
    end do
    this%u = own

  contains

    ! The steps of a FORWARD action.
    subroutine forward
      real(sp), pointer, contiguous :: to(:, :, :)
      logical :: is_saved
      integer :: ts
      is_saved = gpuzip_has_flag(action, gpuzip_flag_next_is_save)
      do ts = action%ts, action%ts_end
        if (is_saved .and. ts == max(action%ts, action%ts_end - 1)) then
          call ask_for_slot(action%ts_end)
          call clear_halo(slot%curr)
          call clear_halo(slot%prev)
        end if
        to => own%curr
        if (associated(this%u%curr, own%curr)) to => own%prev
        if (is_saved .and. ts == action%ts_end - 1) to => slot%prev
        if (is_saved .and. ts == action%ts_end) to => slot%curr
        if (associated(to, this%u%prev)) then
          call shot_forward(this, medium, survey, ts)
        else
          call shot_forward(this, medium, survey, ts, to)
        end if
        if (.not. gpuzip_has_flag(action, gpuzip_flag_recompute)) &
          call record(medium%grid, this%u%curr, this%synthetic(:, :, ts))
        if (is_saved .and. action%ts == action%ts_end) then
          slot%prev = this%u%prev  ! half a copy: u(ts-1) is part of another snapshot
          this%u%prev => slot%prev
        end if
        if (associated(held%curr)) then
          if (.not. (associated(this%u%prev, held%curr) .or. associated(this%u%prev, held%prev))) call give_back
        end if
      end do
    end subroutine

    subroutine ask_for_slot(ts)
      integer, intent(in) :: ts
      call gpuzip_save_begin(session, ts, fields)
      call view(slot)
    end subroutine

    subroutine view(w)
      type(wavefield_t), intent(inout) :: w
      call gpuzip_view(fields(1), w%curr)
      call gpuzip_view(fields(2), w%prev)
    end subroutine

    ! Gives the last snapshot back, if there is one that was not given back.
    subroutine give_back
      if (.not. associated(held%curr)) return
      call gpuzip_retrieve_release(session, held_ts)
      nullify (held%curr)
    end subroutine
  end subroutine
end module
