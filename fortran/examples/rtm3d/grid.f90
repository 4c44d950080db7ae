! The grid of a run; c-examples/rtm3d/grid.h in Fortran, 3-D only.
module grid
  use, intrinsic :: iso_c_binding, only: c_float, c_double
  implicit none

  integer, parameter :: sp = c_float, dp = c_double
  ! Zero cells that the stencil reads beyond the sponge: a Dirichlet boundary.
  integer, parameter :: halo = 4

  ! Layout of every field: model cells, inside `border` sponge cells, inside `halo` cells, on every side. The first index is depth.
  type grid_t
    integer :: n(3)       ! cells of the model
    integer :: border     ! sponge cells per side
    integer :: e(3)       ! extents of the arrays
    integer :: o          ! cells before those of the model, in every direction
    real(dp) :: dx        ! spacing in metres, the same in all directions
  end type

contains

  type(grid_t) function new_grid(n, border, dx) result(g)
    integer, intent(in) :: n(3), border
    real(dp), intent(in) :: dx
    g = grid_t(n=n, border=border, e=n + 2 * (border + halo), o=border + halo, dx=dx)
  end function
end module
