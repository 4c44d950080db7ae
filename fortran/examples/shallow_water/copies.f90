! Copies of the restart files on other nodes (gpuzip_mpi.h), so that they survive the loss of nodes.
module copies
  use, intrinsic :: iso_c_binding
  use ocean, only: world, rank, fail, error_unit
  implicit none

  ! gpuzip_mpi_options_t: a rank's group and how many nodes of it may be lost, and the number of the rank's node.
  type, bind(c) :: options_t
    integer(c_int32_t) :: group = 0, parity = 0  ! no copies are made if parity is 0
    integer(c_int64_t) :: node = 0               ! 0: MPI tells
  end type

  ! gpuzip_mpi_result_t
  type, bind(c) :: result_t
    integer(c_int64_t) :: generation, moved, rebuilt, bytes
    character(c_char) :: text(1024)
  end type

  type(options_t) :: options

  interface
    integer(c_int32_t) function gpuzip_mpi_protect_f(comm, dir, options, res) bind(c)
      import :: c_int, c_int32_t, c_ptr, options_t, result_t
      integer(c_int), value :: comm
      type(c_ptr), value :: dir
      type(options_t), intent(in) :: options
      type(result_t), intent(out) :: res
    end function

    integer(c_int32_t) function gpuzip_mpi_recover_f(comm, dir, res) bind(c)
      import :: c_int, c_int32_t, c_ptr, result_t
      integer(c_int), value :: comm
      type(c_ptr), value :: dir
      type(result_t), intent(out) :: res
    end function
  end interface

contains

  ! Brings back what the folder `dir` of this rank lacks of the newest generation.
  subroutine recover(dir)
    type(c_ptr), intent(in) :: dir
    type(result_t) :: res
    if (gpuzip_mpi_recover_f(int(world%MPI_VAL, c_int), dir, res) < 0) call fail(text_of(res))
    if (rank == 0 .and. res%text(1) /= c_null_char) write (error_unit, '(a)') 'shallow_water: ' // text_of(res)
    if (rank == 0 .and. res%rebuilt > 0) write (error_unit, '(2(a, i0))') 'shallow_water: files from copies: ', &
      res%rebuilt, ', of generation ', res%generation
  end subroutine

  ! Protects the newest generation, which is on the disk.
  subroutine protect(dir)
    type(c_ptr), intent(in) :: dir
    type(result_t) :: res
    if (gpuzip_mpi_protect_f(int(world%MPI_VAL, c_int), dir, options, res) < 0) call fail(text_of(res))
  end subroutine

  function text_of(res) result(text)
    type(result_t), intent(in) :: res
    character(:), allocatable :: text
    integer :: i
    text = ''
    do i = 1, size(res%text)
      if (res%text(i) == c_null_char) exit
      text = text // res%text(i)
    end do
  end function
end module
