! shallow_water [key=value ...]: which sea surface at the beginning, and which depth, explain the heights at
! tide gauges? Prints the misfit, writes its gradient, and tests the gradient; keys and defaults are below.
! Runs on any number of ranks print and write the same bits, except for the line `gpuzip`: their plans differ.
program shallow_water
  use reversal
  implicit none

  integer :: cells_x = 60, cells_y = 40, time_steps = 400  ! nx, ny, steps
  real(dp) :: spacing = 10000                              ! dx, the side of a cell in m
  character(1000) :: states = 'gpuzip'      ! 'kept': every state is kept, without gpuzip
  character(1000) :: config = ''            ! the path of gpuzip's configuration file
  character(1000) :: out = 'gradient.npy'   ! shape (2, ny, nx), FP64: by the initial height, by the depth; m s
  logical :: tests = .true.                 ! whether the gradient is tested
  ! copies=1: restart files survive the loss of 1 of 8 nodes, or of as many as there are; node=N: the number of the
  ! node of this rank, in place of what MPI tells.

  type(gpuzip_stats_t) :: stats
  real(dp), allocatable :: gradient(:, :, :), direction(:, :, :)
  real(dp) :: total
  logical :: stopped = .false.

  call MPI_Init()
  call read_options
  call new_ocean(cells_x, cells_y, spacing)
  call new_inversion(time_steps)
  if (states == 'kept') then
    call reverse_kept
  else
    call reverse_with_gpuzip(config, stats, stopped)
  end if
  if (stopped) then
    if (rank == 0) write (error_unit, '(a)') 'shallow_water: stopped on request; started again, it goes on'
    call MPI_Finalize()
    stop 3
  end if
  total = over_gauges(misfit)
  allocate (gradient(nx, ny, 2), direction(nx, ny, 2), source=0.0_dp)  ! whole on rank 0
  call gather(lambda(:, :, 1), gradient(:, :, 1))
  call gather(depth_gradient, gradient(:, :, 2))
  if (rank == 0) then
    call write_npy
    print '(a, i0, a, i0, a, f0.1, a, i0, a, f0.1, a)', 'grid      ', nx, ' x ', ny, ' cells of ', dx / 1000, &
      ' km, ', steps, ' steps of ', dt, ' s'
    print '(a, es24.17, a)', 'misfit   ', total, ' m2 s'
    if (states /= 'kept') print '(4(a, i0))', 'gpuzip    rank 0: forward steps ', stats%forward_steps, ', saves ', stats%saves, &
      ', written to disk ', stats%disk_writes, ', read from disk ', stats%disk_reads
  end if
  if (tests) then
    call dot_product_test
    call taylor_test
  end if
  call MPI_Finalize()

contains

  subroutine read_options
    character(1000) :: argument, value
    integer :: i, equals, status
    do i = 1, command_argument_count()
      call get_command_argument(i, argument)
      equals = index(argument, '=')
      value = argument(equals + 1:)
      status = 0
      select case (argument(:max(equals, 1)))
      case ('nx=')
        read (value, *, iostat=status) cells_x
      case ('ny=')
        read (value, *, iostat=status) cells_y
      case ('steps=')
        read (value, *, iostat=status) time_steps
      case ('dx=')
        read (value, *, iostat=status) spacing
      case ('tests=')
        read (value, *, iostat=status) tests
      case ('copies=')
        read (value, *, iostat=status) options%parity
      case ('node=')
        read (value, *, iostat=status) options%node
      case ('states=')
        states = value
      case ('config=')
        config = value
      case ('out=')
        out = value
      case default
        status = 1
      end select
      if (status /= 0 .or. time_steps < 1 .or. all(states /= ['gpuzip', 'kept  '])) &
        call fail('shallow_water: ' // trim(argument) // ': wants nx=, ny=, steps= and dx= above 0, tests=T or F, ' // &
                  'states=gpuzip or kept, config=FILE, out=FILE, copies=NUMBER, node=NUMBER')
    end do
  end subroutine

  ! Writes the gradient in NumPy's format, version 1.0: a header of 128 bytes, then the values.
  subroutine write_npy
    character(118) :: header
    character(200) :: message
    integer :: unit, status
    write (header, '(2(a, i0), a)') '{''descr'': ''<f8'', ''fortran_order'': False, ''shape'': (2, ', ny, ', ', nx, '), }'
    header(118:) = new_line('a')
    open (newunit=unit, file=out, access='stream', form='unformatted', action='write', status='replace', iostat=status, &
          iomsg=message)
    if (status == 0) write (unit, iostat=status, iomsg=message) char(147), 'NUMPY', char(1), char(0), char(118), char(0), header, &
      gradient
    if (status == 0) close (unit, iostat=status, iomsg=message)
    if (status /= 0) call fail(trim(out) // ': ' // message)
  end subroutine

  ! A change of the initial height (up to 0.2 m) and of the depth (up to 1 m) that has no symmetry.
  subroutine set_direction(d, d_depth)
    real(dp), intent(out) :: d(0:, first:, :), d_depth(0:, first:)
    integer :: i, j
    d = 0
    d_depth = 0
    do j = first, last
      do i = 1, nx
        d(i, j, 1) = 0.2_dp * wet(i, j) * sin(9 * x_of(i) + 4 * y_of(j)) * cos(7 * y_of(j) - 1)
        d_depth(i, j) = wet(i, j) * cos(5 * x_of(i) - 8 * y_of(j)**2)
      end do
    end do
    call gather(d(:, :, 1), direction(:, :, 1))
    call gather(d_depth, direction(:, :, 2))
  end subroutine

  ! The adjoint: the derivative of the misfit along a direction, by the gradient and by the tangent model.
  subroutine dot_product_test
    real(dp), allocatable :: d(:, :, :), d_depth(:, :), heights(:, :), d_heights(:, :)
    real(dp) :: by_gradient, by_tangent
    allocate (d, mold=x)
    allocate (d_depth, mold=depth)
    allocate (heights, d_heights, mold=observed)
    call set_direction(d, d_depth)
    call begin
    call record(heights, d, d_depth, d_heights)
    by_tangent = over_gauges(dt * sum((heights - observed) * d_heights, 1))
    if (rank /= 0) return
    by_gradient = sum(gradient * direction)
    print '(a, es24.17, a)', 'gradient ', by_gradient, ' m2 s along a direction'
    print '(a, es24.17, a, es8.1)', 'tangent  ', by_tangent, ' m2 s, relative difference', abs(by_tangent / by_gradient - 1)
  end subroutine

  ! The gradient: the misfit after a change e of the initial height, or of the depth, minus its first-order
  ! Taylor polynomial. The remainder is of order 2 in e.
  subroutine taylor_test
    real(dp), allocatable :: d(:, :, :), d_depth(:, :), heights(:, :), known(:, :)
    real(dp) :: e, remainder(2), before(2)
    integer :: row, k
    allocate (d, mold=x)
    known = depth
    allocate (d_depth, mold=depth)
    allocate (heights, mold=observed)
    call set_direction(d, d_depth)
    if (rank == 0) print '(a)', 'e          remainder, height  order  remainder, depth   order'
    do row = 0, 6
      e = 0.25_dp**row
      do k = 1, 2
        call begin
        if (k == 1) x = x + e * d
        if (k == 2) depth = known + e * d_depth
        call record(heights)
        depth = known
        remainder(k) = over_gauges(dt * sum((heights - observed)**2, 1) / 2) - total &
          - e * sum(gradient(:, :, k) * direction(:, :, k))
      end do
      if (rank == 0 .and. row == 0) print '(f8.6, 2(es18.8, 8x))', e, remainder
      if (rank == 0 .and. row > 0) print '(f8.6, 2(es18.8, f8.3))', e, &
        (remainder(k), log(before(k) / remainder(k)) / log(4.0_dp), k=1, 2)
      before = remainder
    end do
  end subroutine
end program
