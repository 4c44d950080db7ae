! The reversal with gpuzip: all that checkpoints, the disk and restart files add to the code, but for copies.f90.
module reversal
  use, intrinsic :: iso_c_binding
  use copies, only: options, protect, recover
  use gpuzip
  use inversion
  implicit none

  ! What restart files hold, by name. With scope 1 it changes during the run.
  character(14), parameter, private :: names(5) = [character(14) :: 'job', 'state', 'lambda', 'depth gradient', 'misfit']
  integer, parameter, private :: scopes(5) = [0, 1, 1, 1, 1]
  character(1000), private :: reason

contains

  ! The least of a number over the ranks of the communicator at `user`.
  integer(c_int32_t) function least(user, value) bind(c)
    type(c_ptr), value :: user
    integer(c_int64_t), intent(inout) :: value
    type(MPI_Comm), pointer :: communicator
    integer :: status
    call c_f_pointer(user, communicator)
    call MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INTEGER8, MPI_MIN, communicator, status)
    least = merge(0_c_int32_t, 1_c_int32_t, status == MPI_SUCCESS)
  end function

  ! Ends all ranks if a call of gpuzip has failed: the others would wait for this one.
  subroutine check(status)
    integer, intent(in) :: status
    if (status < 0) call fail(reason)
  end subroutine

  ! The arrays of a state, without halos: each stage of a time step exchanges them.
  function state() result(fields)
    type(gpuzip_field_t) :: fields(3)
    integer :: k
    fields = [(gpuzip_field(x(1:nx, south:north, k)), k=1, 3)]
  end function

  ! Computes misfit and gradient. Budgets, disk and the folder for restart files are those of gpuzip's
  ! configuration: the file `path`, if it is not blank, and the variables GPUZIP_*. `stopped` becomes whether
  ! SIGTERM or SIGUSR1 stopped the run; started again, it goes on.
  subroutine reverse_with_gpuzip(path, stats, stopped)
    character(*), intent(in) :: path
    type(gpuzip_stats_t), intent(inout) :: stats
    logical, intent(out) :: stopped
    type(gpuzip_config_t) :: config
    type(gpuzip_t) :: session
    type(gpuzip_action_t) :: action
    type(gpuzip_generation_t) :: found
    real(dp), target :: job(4)
    logical :: restartable
    integer :: status
    integer(c_int32_t) :: due
    stopped = .false.
    found%it = -1  ! as gpuzip_persist_find says where there is nothing to go on from
    call gpuzip_config_load(config, path, status, reason)
    call check(status)
    config%range_actions = 0  ! the loop takes one step in each action, and reverses every step
    config%adjoint_every = 0
    restartable = c_associated(config%persist_dir)
    call gpuzip_init(config, int(steps, c_int32_t), state(), session, status, reason)
    call gpuzip_agree(session, least, c_loc(world), status, reason)  ! on every rank, also where gpuzip_init failed
    call check(status)
    job = [real(dp) :: nx, ny, steps, dx]
    if (restartable) call go_on
    if (found%it < 0) then  ! the run begins
      call gpuzip_setup(session, status, reason)
      call check(status)
      call begin
    end if
    do
      if (restartable) then
        call gpuzip_persist_due(session, due, status, reason)
        call check(status)
        if (due /= gpuzip_due_no) &
          call gpuzip_persist_write(session, 0_c_int64_t, names, kept(), scopes, stat=status, errmsg=reason)
        call check(status)
        stopped = due == gpuzip_due_stop
        if (stopped .or. due /= gpuzip_due_no .and. options%parity > 0) call gpuzip_persist_wait(session, status, reason)
        call check(status)
        if (due /= gpuzip_due_no .and. options%parity > 0) call protect(config%persist_dir)
        if (stopped) exit
      end if
      call gpuzip_get_action(session, action, status, reason)
      call check(status)
      select case (action%type)
      case (gpuzip_action_forward)
        call step(x)
      case (gpuzip_action_save)
        call gpuzip_save(session, action%ts, state(), stat=status, errmsg=reason)
      case (gpuzip_action_restore)
        call gpuzip_retrieve(session, action%ts, state(), stat=status, errmsg=reason)
        call clear_land(x)  ! a lossy codec may have left small values there
      case (gpuzip_action_backward)
        call backward(int(action%ts))
      case (gpuzip_action_terminate)
        exit
      end select
      call check(status)
    end do
    call gpuzip_stats(session, stats, status, reason)
    call check(status)
    call gpuzip_finalize(session, status, reason)
    call check(status)
    call gpuzip_config_free(config)

  contains

    function kept() result(fields)
      type(gpuzip_field_t) :: fields(5)
      fields = [gpuzip_field(job), gpuzip_field(x), gpuzip_field(lambda), gpuzip_field(depth_gradient), gpuzip_field(misfit)]
    end function

    ! Opens the folder for restart files, and reads the newest generation if there is one.
    subroutine go_on
      real(dp) :: own(4)
      own = job
      if (options%parity > 0) call recover(config%persist_dir)
      call gpuzip_persist_open(session, int(rank, c_int32_t), int(ranks, c_int32_t), least, c_loc(world), status, reason)
      call check(status)
      call gpuzip_catch_signals(stat=status, errmsg=reason)  ! SIGTERM and SIGUSR1
      call check(status)
      call gpuzip_persist_find(session, found, status, reason)
      call check(status)
      if (found%generation == 0) return
      call gpuzip_persist_read(session, names, kept(), scopes, stat=status, errmsg=reason)
      call check(status)
      if (any(abs(job - own) > 0)) call fail('shallow_water: the restart files are of a run with other nx, ny, steps or dx')
      if (rank == 0 .and. found%it >= 0) write (error_unit, '(a, i0)') 'shallow_water: goes on after action ', found%it
    end subroutine
  end subroutine
end module
