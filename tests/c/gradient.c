/* Tests include/gpuzip_gradient.h: a right gradient passes, wrong ones and steps within rounding do not, and
 * the numbers are those that are known for a polynomial. An argument other than "few" is a file that becomes
 * the picture. The program exits with 1 at the first failed check. */
#include "test.h"

#include <gpuzip_gradient.h>

/* J(1 + h) for J(m) = m^2 / 2 + c m^3, in steps h that are exact. */
static double cubic(void *user, double h)
{
  const double m = 1.0 + h;
  return 0.5 * m * m + *(const double *)user * m * m * m;
}

static int close_to(double value, double expected, double error) { return fabs(value - expected) <= error; }

static gpuzip_taylor_t taylor(double c, double slope, double largest, int sizes)
{
  gpuzip_taylor_t t;

  memset(&t, 0, sizeof t);
  t.sizes = sizes;
  CHECK(gpuzip_taylor(&t, cubic, &c, 0.5 + c, slope, largest) == t.passed);
  return t;
}

static void taylor_tests(void)
{
  gpuzip_taylor_t t = taylor(0.0, 1.0, 0.125, 0);

  /* remainder 1 = h + h^2/2, remainder 2 = h^2/2 */
  CHECK(t.sizes == 6 && t.passed && t.judged == 5 && close_to(t.least, 2.0, 1e-9) && close_to(t.most, 2.0, 1e-9));
  for (int i = 0; i < t.sizes; i++) {
    const double h = ldexp(0.125, -i);
    CHECK(t.h[i] == h && t.first[i] == h + 0.5 * h * h && t.second[i] == 0.5 * h * h);
  }
  for (int i = 0; i + 1 < t.sizes; i++)
    CHECK(close_to(t.first_order[i], log2(t.first[i] / t.first[i + 1]), 1e-12) && close_to(t.second_order[i], 2.0, 1e-9));
  CHECK(t.rounding == 8.0 * DBL_EPSILON * t.changed[0]);

  CHECK(taylor(0.3, 1.9, 0.01, 8).passed);
  /* A slope that is off by 1 % in either direction. Its remainder is |h^2/2 + 0.01 h|: the order falls to 1, or grows. */
  CHECK(!taylor(0.0, 0.99, 0.125, 0).passed && taylor(0.0, 0.99, 0.125, 0).least < 1.6);
  t = taylor(0.0, 1.001, 0.125, 0);
  CHECK(t.passed && t.most > 2.2 && t.second_order[4] > t.second_order[0]);
  t.high = 2.1;
  CHECK(!gpuzip_taylor_judge(&t));
  CHECK(!taylor(0.0, -1.0, 0.125, 0).passed && !taylor(0.0, NAN, 0.125, 0).passed && isnan(taylor(0.0, NAN, 0.125, 0).least));

  t = taylor(0.0, 1.0, 0.125, 0);
  t.changed[2] = NAN;
  CHECK(!gpuzip_taylor_judge(&t) && isnan(t.least) && isnan(t.most) && t.judged == 5);

  /* Steps whose remainders are within rounding are not judged. */
  t = taylor(0.1, 1.3, 1e-9, 0);
  CHECK(t.judged == 0 && !t.passed && isnan(t.second_order[0]));
  t = taylor(0.1, 1.3, 1e-5, 16);
  CHECK(t.judged >= 2 && t.judged < 12 && t.passed && !isnan(t.second_order[0]) && isnan(t.second_order[14]));
  CHECK(taylor(0.0, 1.0, 0.125, 99).sizes == GPUZIP_TAYLOR_MOST);
  t = taylor(0.0, 1.0, 0.125, 2); /* one order is too few */
  CHECK(t.judged == 1 && !t.passed);
}

/* A is 3 x 2; `user` is added to one element of A'. */
static const double A[3][2] = {{1.0, -2.0}, {0.5, 4.0}, {3.0, 0.25}};

static void forward(void *user, const double *x, double *ax)
{
  (void)user;
  for (int i = 0; i < 3; i++) ax[i] = A[i][0] * x[0] + A[i][1] * x[1];
}

static void adjoint(void *user, const double *y, double *aty)
{
  for (int j = 0; j < 2; j++) aty[j] = A[0][j] * y[0] + A[1][j] * y[1] + A[2][j] * y[2];
  aty[1] += *(const double *)user * y[2];
}

static void dot_tests(void)
{
  double x[2], y[3], ax[3], aty[2], error = 0.0, left = 0.0, right = 0.0;
  gpuzip_dot_t d = gpuzip_dot_test(forward, adjoint, &error, x, aty, 2, y, ax, 3, 1e-15);

  for (int i = 0; i < 3; i++) left += ax[i] * y[i];
  for (int j = 0; j < 2; j++) right += x[j] * aty[j];
  CHECK(d.passed && d.mismatch <= 1e-15 && d.forward == left && d.adjoint == right && fabs(left) > 0.01);
  for (int j = 0; j < 2; j++) CHECK(fabs(x[j]) <= 1.0 && x[j] != y[j]);
  error = 1e-6;
  d = gpuzip_dot_test(forward, adjoint, &error, x, aty, 2, y, ax, 3, 1e-12);
  CHECK(!d.passed && close_to(d.mismatch * sqrt((ax[0] * ax[0] + ax[1] * ax[1] + ax[2] * ax[2]) * (y[0] * y[0] + y[1] * y[1] + y[2] * y[2])),
                              error * fabs(x[1] * y[2]), 1e-14));
  d = gpuzip_dot(2.0, -4.0, 0.0, 1.0);
  CHECK(d.mismatch == 1.5 && !d.passed && gpuzip_dot(2.0, -4.0, 12.0, 0.5).passed && !gpuzip_dot(NAN, 1.0, 0.0, 1.0).passed);
  CHECK(!gpuzip_dot(0.0, 0.0, 0.0, 1.0).passed); /* two zeros tell nothing */
}

/* What is printed and drawn: the text in a file contains `part`, and has as many of it as `times`. */
static char text[20000];

static void contains(FILE *file, const char *part, int times)
{
  const char *at = text;
  size_t bytes;

  rewind(file);
  bytes = fread(text, 1, sizeof text - 1, file);
  CHECK(bytes > 0 && bytes < sizeof text - 1);
  text[bytes] = '\0';
  while (times-- > 0) {
    at = strstr(at, part);
    if (at == NULL) fprintf(stderr, "no %s in\n%s\n", part, text);
    CHECK(at != NULL);
    at++;
  }
  CHECK(strstr(at, part) == NULL);
}

static void output(const char *picture)
{
  FILE *file = picture != NULL ? fopen(picture, "w+") : tmpfile(), *print = tmpfile();
  gpuzip_taylor_t t = taylor(0.3, 1.9, 0.01, 8), wrong = taylor(0.0, 0.9, 0.125, 0), none = taylor(0.1, 1.3, 1e-9, 0);
  gpuzip_dot_t d = gpuzip_dot(1.0, 2.0, 0.0, 1e-12);
  const char *dashed, *path = NULL, *circle = NULL;
  int x, y, cx, cy;

  CHECK(file != NULL && print != NULL);
  gpuzip_taylor_print(&t, print);
  gpuzip_taylor_print(&wrong, print);
  gpuzip_taylor_print(&none, print);
  t.high = 2.1;
  gpuzip_taylor_print(&t, print);
  gpuzip_dot_print(&d, print);
  contains(print, "gradient RIGHT: the 7 judged orders", 2);
  contains(print, "have to be at least 1.9\n", 2);
  contains(print, "have to be 1.9 to 2.1\n", 1);
  contains(print, "gradient WRONG: the 5 judged orders", 1);
  contains(print, "gradient NOT JUDGED", 1);
  contains(print, "mismatch 5.00e-01 of at most 1e-12: adjoint WRONG", 1);
  contains(print, "Taylor test: ", 4);
  CHECK(gpuzip_taylor_svg(&t, file) == 0);
  contains(file, "<circle", 16);
  contains(file, "stroke-dasharray", 2);
  contains(file, ">1e-2</text>", 2); /* a decade of each axis */
  contains(file, "nan", 0);
  fclose(print);
  fclose(file);
  /* Remainders that no logarithm shows are left out. */
  t.second[2] = 0.0;
  t.first[3] = NAN;
  CHECK((file = tmpfile()) != NULL && gpuzip_taylor_svg(&t, file) == 0);
  contains(file, "<circle", 14);
  contains(file, ">1e-9</text>", 1);
  fclose(file);
  /* Where remainder 2 is h^2/2, the dashed line of slope 2 ends at its last point. */
  t = taylor(0.0, 1.0, 0.125, 5);
  CHECK((file = tmpfile()) != NULL && gpuzip_taylor_svg(&t, file) == 0);
  contains(file, "<circle", 10);
  dashed = strstr(strstr(text, "stroke-dasharray") + 1, "stroke-dasharray");
  for (const char *p = text; (p = strstr(p, "<path d=\"M")) != NULL && p < dashed; p++) path = p;
  for (const char *p = text; (p = strstr(p, "<circle")) != NULL; p++) circle = p;
  CHECK(sscanf(path, "<path d=\"M%*d %*dL%d %d", &x, &y) == 2 && sscanf(circle, "<circle cx=\"%d\" cy=\"%d", &cx, &cy) == 2);
  CHECK(x == cx && abs(y - cy) <= 1);
  fclose(file);
}

int main(int argc, char **argv)
{
  taylor_tests();
  dot_tests();
  output(argc > 1 && strcmp(argv[1], "few") != 0 ? argv[1] : NULL);
  puts("ok");
  return 0;
}
