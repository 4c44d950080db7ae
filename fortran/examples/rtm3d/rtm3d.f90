! rtm3d job.nml: reverse time migration in 3-D of the built-in salt dome; gpuzip keeps the states of
! the forward sweep for the adjoint sweep. The image equals that of c-examples/rtm3d bit for bit.
! The job is a namelist `&job`; variables that it does not set have the defaults of the C example.
program rtm3d
  use, intrinsic :: iso_fortran_env, only: error_unit, int64
  use gpuzip
  use checkpoint
  use model
  implicit none

  ! Cells in depth, across the line and along it; sponge cells; sources along the line; time steps
  ! (0: enough for the way to the bottom and back).
  integer :: n1 = 64, n2 = 48, n3 = 96, border = 16, shots = 8, steps = 0
  ! dx in metres; dt in seconds (0: 0.9 of the largest stable step) and freq in Hz (0: 8 points per
  ! shortest wavelength); cells over which slowness is smoothed.
  real(dp) :: dx = 25, dt = 0, freq = 0, smooth = 3
  ! The path of gpuzip's configuration file, or blank; the folder for the images, which must exist.
  character(1000) :: config = '', out = '.'
  ! Whether states lie in the library's memory, so that saving and retrieving copy nothing.
  logical :: zero_copy = .false.
  ! The folder for restart files, or blank: the run writes them, and goes on from them if there are any.
  character(1000) :: restart_files = ''
  namelist /job/ n1, n2, n3, border, shots, steps, dx, dt, freq, smooth, config, out, zero_copy, restart_files

  type(grid_t) :: g
  type(medium_t) :: truth, known
  type(survey_t) :: survey
  type(shot_t) :: this
  type(image_t) :: image, one  ! of all shots, and of one shot
  type(gpuzip_t) :: session
  type(gpuzip_stats_t) :: stats
  type(restart_t), target :: restart
  real(sp), allocatable :: v(:, :, :), s(:, :, :)
  integer(int64) :: forward_steps = 0, start, finish, rate
  real(dp) :: seconds = 0, stall = 0
  integer :: i

  call read_job
  g = new_grid([n1, n2, n3], border, dx)
  v = salt_model(g%n)
  s = smooth_model(v, smooth)
  call set_times
  truth = new_medium(g, dt, v)
  known = new_medium(g, dt, s)
  deallocate (v, s)
  survey = new_survey(g, steps, shots, dt, freq)
  call new_shot(this, g, survey)
  call new_image(image, g)
  call new_image(one, g)
  call checkpoint_open(session, config, zero_copy, survey, this%u, restart_files)
  call tell_size
  restart%on = restart_files /= ''
  restart%job = [real(dp) :: n1, n2, n3, border, shots, steps, dx, dt, freq, smooth]
  if (restart%on) call restart_open(restart, session, this, one, image)
  do i = restart%number, shots
    restart%number = i
    if (restart%within) then
      this%source = survey%source(:, i)  ! all else comes from the restart files
    else
      call restart_step(restart, session, this, one, image)
      if (restart%stopped) call stop_early
      call shot_observe(this, truth, survey, i)
      one%correlation = 0
      one%illumination = 0
    end if
    call system_clock(start, rate)
    if (zero_copy) then
      call migrate_in_slots(session, this, known, survey, one)
    else
      call migrate(session, this, known, survey, one, restart, image)
      if (restart%stopped) call stop_early
    end if
    call system_clock(finish)
    seconds = seconds + real(finish - start, dp) / real(rate, dp)
    image%correlation = image%correlation + one%correlation
    image%illumination = image%illumination + one%illumination
    call gpuzip_stats(session, stats)
    forward_steps = forward_steps + stats%forward_steps
    stall = stall + stats%stall
    write (error_unit, '(2(a, i0), a, f0.1, a)') 'rtm3d: shot ', i, ' of ', shots, ' is migrated, ', seconds * (shots - i) / i, &
      ' s of migration left'
  end do
  call gpuzip_finalize(session)
  call write_raw('correlation.f32', image%correlation)
  call write_raw('illumination.f32', image%illumination)
  call write_raw('image.f32', normalised(image))
  print '(a, 3(i0, a), i0, a, i0, a)', 'model      ', n1, ' x ', n2, ' x ', n3, ' cells, ', shots, ' shots, ', steps, ' steps'
  print '(a, f8.2, a, f8.3, a, i0, a)', 'migration', seconds, ' s, of which ', stall, ' s stalled; ', forward_steps, &
    ' forward steps'
  print '(2a)', 'image      ', trim(out) // '/image.f32'

contains

  ! Prints the size of the job before the computation begins.
  subroutine tell_size
    type(gpuzip_summary_t) :: plan
    real(dp) :: state
    call gpuzip_summary(session, plan)
    state = 8e-6_dp * size(this%u%curr, kind=int64)
    write (error_unit, '(5(a, i0), a)') 'rtm3d: ', n1, ' x ', n2, ' x ', n3, ' cells, ', shots, ' shots of ', steps, ' time steps'
    write (error_unit, '(a, f0.2, a, i0, a)') 'rtm3d: a state has 2 fields, together ', state, &
      ' MB; planned are ', plan%snapshots, ' snapshots at a time'
    write (error_unit, '(2(a, f0.2), a)') 'rtm3d: the snapshots take ', state * plan%snapshots, ' MB; all states would take ', &
      state * steps, ' MB'
  end subroutine

  ! Ends a run that was asked to stop.
  subroutine stop_early
    write (error_unit, '(2(a, i0), 2a)') 'rtm3d: stopped on request within shot ', restart%number, ' of ', shots, &
      ': continue with the same restart_files, ', trim(restart_files)
    flush (error_unit)
    call gpuzip_finalize(session)
    stop 3
  end subroutine

  ! Reads the namelist from the file that the command line names.
  subroutine read_job
    character(1000) :: path, message
    integer :: unit, status
    if (command_argument_count() /= 1) call stop_with('usage: rtm3d job.nml')
    call get_command_argument(1, path)
    open (newunit=unit, file=path, action='read', status='old', iostat=status, iomsg=message)
    if (status == 0) read (unit, nml=job, iostat=status, iomsg=message)
    if (status /= 0) call stop_with(trim(path) // ': ' // message)
    close (unit)
    if (min(n1, n2, n3) < 8 .or. border < 4 .or. shots < 1 .or. dx <= 0 .or. smooth <= 0) &
      call stop_with(trim(path) // ': wants n1, n2, n3 >= 8, border >= 4, shots >= 1, dx > 0 and smooth > 0')
    if (zero_copy .and. restart_files /= '') call stop_with(trim(path) // ': restart_files with zero_copy: use one of the two')
    if (steps == 1 .or. steps < 0) call stop_with(trim(path) // ': wants steps >= 2, or 0 for enough to reach the bottom')
  end subroutine

  ! Computes time step, frequency and number of steps where they are 0, as c-examples/rtm3d/job.c
  ! does.
  subroutine set_times
    real(dp) :: slowest, fastest, limit, path
    character(200) :: message
    slowest = min(real(minval(v), dp), real(minval(s), dp))
    fastest = max(real(maxval(v), dp), real(maxval(s), dp))
    limit = stable_dt(dx, fastest)
    if (dt <= 0) dt = three_digits(0.9_dp * limit)
    write (message, '(a, es10.3, a, es10.3, a)') 'dt = ', dt, ': unstable; the largest stable time step is ', limit, ' s'
    if (dt > limit) call stop_with(message)
    if (freq <= 0) freq = three_digits(slowest / dx / 8)
    ! The way to the bottom and back, sideways by at most the depth, plus the length of the wavelet.
    path = 2 * hypot(real(n1, dp), min(real(max(n2, n3), dp) / 2, real(n1, dp))) * dx
    if (steps == 0) steps = ceiling((path / mean_speed(s) + 2.4_dp / freq) / dt)
  end subroutine

  ! Rounds x down to three significant digits, so that a user can type the printed number again.
  real(dp) function three_digits(x)
    real(dp), intent(in) :: x
    real(dp) :: unit
    unit = 10.0_dp**(real(floor(log10(x)), dp) - 2)
    three_digits = floor(x / unit) * unit
  end function

  ! Writes FP32 values without a header in this machine's byte order, depth fastest.
  subroutine write_raw(name, values)
    character(*), intent(in) :: name
    real(sp), intent(in) :: values(:, :, :)
    character(200) :: message
    integer :: unit, status
    open (newunit=unit, file=trim(out) // '/' // name, access='stream', form='unformatted', action='write', status='replace', &
          iostat=status, iomsg=message)
    if (status == 0) write (unit, iostat=status, iomsg=message) values
    if (status == 0) close (unit, iostat=status, iomsg=message)
    if (status /= 0) call stop_with(trim(out) // '/' // name // ': ' // message)
  end subroutine

  subroutine stop_with(message)
    character(*), intent(in) :: message
    write (error_unit, '(a)') trim(message)
    flush (error_unit)
    error stop 2
  end subroutine
end program
