! Migration of a shot with gpuzip: all that checkpointing adds to a time loop.
module checkpoint
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  use gpuzip
  use shot
  implicit none

  ! What is kept in restart files: the shot under way, counted from 1, and whether the run goes on within it.
  type restart_t
    logical :: on = .false.       ! whether the job asks for restart files
    logical :: within = .false.
    logical :: stopped = .false.  ! a stop was requested, and the files are on the disk
    integer :: number = 1
    real(dp) :: job(10) = 0       ! everything that decides the image: see job_names
  end type

  character(8), parameter :: job_names(10) = [character(8) :: 'n1', 'n2', 'n3', 'border', 'shots', 'steps', 'dx', 'dt', 'freq', &
                                              'smooth']
  character(16), parameter :: names(11) = [character(16) :: 'job', 'image', 'illumination', 'part of image', 'part of illum.', &
                                           'u', 'u before', 'lambda', 'lambda after', 'observed', 'synthetic']
  integer, parameter :: scopes(11) = [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]

contains

  ! The memory that restart files keep. curr and prev change places at every step.
  function kept(restart, this, one, image) result(fields)
    type(restart_t), intent(in), target :: restart
    type(shot_t), intent(in) :: this
    type(image_t), intent(in) :: one, image
    type(gpuzip_field_t) :: fields(11)
    fields = [gpuzip_field(restart%job), gpuzip_field(image%correlation), gpuzip_field(image%illumination), &
              gpuzip_field(one%correlation), gpuzip_field(one%illumination), gpuzip_field(this%u%curr), gpuzip_field(this%u%prev), &
              gpuzip_field(this%lambda%curr), gpuzip_field(this%lambda%prev), gpuzip_field(this%observed), &
              gpuzip_field(this%synthetic)]
  end function

  ! Opens the folder of restart files and goes on from them, if there are any and they are of this job.
  ! SIGTERM and SIGUSR1 stop the run.
  subroutine restart_open(restart, session, this, one, image)
    type(restart_t), intent(inout), target :: restart
    type(gpuzip_t), intent(in) :: session
    type(shot_t), intent(in) :: this
    type(image_t), intent(in) :: one, image
    type(gpuzip_generation_t) :: found
    real(dp) :: mine(size(restart%job))
    integer :: i
    mine = restart%job
    call gpuzip_persist_open(session)
    call gpuzip_catch_signals()
    call gpuzip_persist_find(session, found)
    if (found%generation == 0) return
    call gpuzip_persist_read(session, names, kept(restart, this, one, image), scopes)
    do i = 1, size(mine)
      if (transfer(restart%job(i), 0_c_int64_t) == transfer(mine(i), 0_c_int64_t)) cycle
      write (error_unit, '(3a, es24.17, 3a, es24.17, a)') 'rtm3d: the run that wrote the restart files had ', &
        trim(job_names(i)), ' =', restart%job(i), ', this run has ', trim(job_names(i)), ' =', mine(i), &
        '; give the job of that run, or other restart_files'
      flush (error_unit)
      error stop 2
    end do
    restart%number = int(found%shot)
    restart%within = found%it >= 0
  end subroutine

  ! Writes restart files if they are due: between shots, or after the work of an action.
  subroutine restart_step(restart, session, this, one, image)
    type(restart_t), intent(inout), target :: restart
    type(gpuzip_t), intent(in) :: session
    type(shot_t), intent(in) :: this
    type(image_t), intent(in) :: one, image
    integer(c_int32_t) :: due
    if (.not. restart%on) return
    call gpuzip_persist_due(session, due)
    if (due == gpuzip_due_no) return
    call gpuzip_persist_write(session, int(restart%number, c_int64_t), names, kept(restart, this, one, image), scopes)
    restart%stopped = due == gpuzip_due_stop
    if (restart%stopped) call gpuzip_persist_wait(session)
  end subroutine

  ! Opens a session for `survey%steps` steps of the wavefield `u`, configured by the file `config`
  ! (none if blank) and by GPUZIP_* environment variables. `zero_copy`: whether states lie in memory of
  ! the session; set if the configuration asks for it.
  subroutine checkpoint_open(session, config, zero_copy, survey, u, folder)
    type(gpuzip_t), intent(inout) :: session
    character(*), intent(in) :: config
    logical, intent(inout) :: zero_copy
    type(survey_t), intent(in) :: survey
    type(wavefield_t), intent(in) :: u
    character(*), intent(in) :: folder  ! for restart files; blank: none
    type(gpuzip_config_t) :: settings
    character(len(folder) + 1, c_char), target :: c_folder
    type(c_ptr) :: loaded
    call gpuzip_config_load(settings, config)
    loaded = settings%persist_dir
    c_folder = trim(folder) // c_null_char
    if (folder /= '') settings%persist_dir = c_loc(c_folder)
    if (zero_copy) settings%zero_copy = 1
    zero_copy = settings%zero_copy == 1
    settings%range_actions = settings%zero_copy  ! migrate takes one step per action, migrate_in_slots a range
    settings%adjoint_every = 0  ! both loops image every state
    ! role=1 declares prev as the previous time level of curr. A lossy codec then also bounds the
    ! error of their difference, which acts as a velocity.
    call gpuzip_init(settings, survey%steps, [gpuzip_field(u%curr), gpuzip_field(u%prev, role=1)], session)
    settings%persist_dir = loaded
    call gpuzip_config_free(settings)
  end subroutine

  ! The checkpointing loop: does what each action says, until TERMINATE. Without `stat` an error
  ! ends the program.
  subroutine migrate(session, this, medium, survey, image, restart, stacked)
    type(gpuzip_t), intent(in) :: session
    type(shot_t), intent(inout) :: this
    type(medium_t), intent(in) :: medium
    type(survey_t), intent(in) :: survey
    type(image_t), intent(inout) :: image
    type(restart_t), intent(inout) :: restart
    type(image_t), intent(in) :: stacked  ! of the shots before
    type(gpuzip_action_t) :: action
    if (.not. restart%within) then
      call gpuzip_setup(session)
      call shot_begin(this)
    end if
    restart%within = .false.
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
      call restart_step(restart, session, this, image, stacked)
      if (restart%stopped) return
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
