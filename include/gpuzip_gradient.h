/*
 * Two tests of a gradient by the adjoint. Header only, C99 and C++11; it needs neither libgpuzip nor memory
 * of its own, only the mathematical library (-lm).
 *
 * The Taylor test, of a gradient g of J at m, with a direction p and steps h, h/2, h/4, ...:
 *
 *     remainder 1 = |J(m + h p) - J(m)|              = O(h)
 *     remainder 2 = |J(m + h p) - J(m) - h <g, p>|   = O(h^2)   if g is the gradient of J
 *
 * The rule: the order of remainder 2 between two neighbouring steps is judged where the smaller remainder is
 * more than three times the rounding error of J. The gradient passes if at least two orders are judged, and
 * each of them is at least 1.9.
 *
 *     gpuzip_taylor_t test = {0};
 *     gpuzip_taylor(&test, J, &model, value, slope, 1e-2);    with slope = <g, p> and
 *     gpuzip_taylor_print(&test, stdout);                     J(&model, h) = J(m + h p)
 *
 * The dot-product test, of a linear operator A and its adjoint A': <A x, y> = <x, A' y> for random x and y.
 */
#ifndef GPUZIP_GRADIENT_H
#define GPUZIP_GRADIENT_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#define GPUZIP_TAYLOR_MOST 16  /* The most steps h of a test. */
#define GPUZIP_TAYLOR_ORDER 1.9  /* The least order of remainder 2 that passes. */
#define GPUZIP_TAYLOR_LEAST 2  /* The least number of judged orders with which a gradient passes. */

/* A Taylor test: what the program gives, and what the functions compute. All zero before the program fills it in.
 * The arrays have `sizes` entries, and those of orders one fewer. */
typedef struct gpuzip_taylor_t {
  /* Given; 0 stands for the default. */
  int sizes;        /* number of steps h, at most GPUZIP_TAYLOR_MOST; default 6 */
  double rounding;  /* error of a value of J; default 8 DBL_EPSILON times the largest |J| */
  double high;      /* the largest order that passes; default: none. Orders above 2 that grow as h falls
                       tell of a small error of the slope that has the sign of the second derivative */
  double value, slope;                /* J(m), <g, p> */
  double h[GPUZIP_TAYLOR_MOST];       /* falling */
  double changed[GPUZIP_TAYLOR_MOST]; /* J(m + h p) */
  /* Computed. An order belongs to h[i] and h[i+1]; NAN if it is not judged. */
  double first[GPUZIP_TAYLOR_MOST], second[GPUZIP_TAYLOR_MOST]; /* remainder 1, remainder 2 */
  double first_order[GPUZIP_TAYLOR_MOST], second_order[GPUZIP_TAYLOR_MOST];
  double least, most;  /* the least and the largest judged order of remainder 2 */
  int judged;          /* number of judged orders */
  int passed;          /* 1: the gradient passes; 0: it does not, or too few orders were judged */
} gpuzip_taylor_t;

/* Computes orders and decision from h, first and second. Returns whether the gradient passes. */
static inline int gpuzip_taylor_orders(gpuzip_taylor_t *t)
{
  int i;

  t->judged = 0;
  t->passed = 1;
  t->least = INFINITY;
  t->most = -INFINITY;
  for (i = 0; i + 1 < t->sizes; i++) {
    const double halving = log(t->h[i] / t->h[i + 1]), order = log(t->second[i] / t->second[i + 1]) / halving;
    t->first_order[i] = log(t->first[i] / t->first[i + 1]) / halving;
    t->second_order[i] = NAN;
    if (t->second[i + 1] <= 3.0 * t->rounding) continue;
    t->second_order[i] = order;
    /* A NAN fails and stays. */
    if (!isnan(t->least) && !(order >= t->least)) t->least = order;
    if (!isnan(t->most) && !(order <= t->most)) t->most = order;
    t->passed &= order >= GPUZIP_TAYLOR_ORDER && (t->high <= 0.0 || order <= t->high);
    t->judged++;
  }
  t->passed &= t->judged >= GPUZIP_TAYLOR_LEAST;
  return t->passed;
}

/* Computes remainders, orders and decision from value, slope, h and changed, for programs that fill these in
 * themselves. Returns whether the gradient passes. */
static inline int gpuzip_taylor_judge(gpuzip_taylor_t *t)
{
  double largest = fabs(t->value);
  int i;

  for (i = 0; i < t->sizes; i++) {
    t->first[i] = fabs(t->changed[i] - t->value);
    t->second[i] = fabs(t->changed[i] - t->value - t->h[i] * t->slope);
    largest = fmax(largest, fabs(t->changed[i]));
  }
  if (t->rounding <= 0.0) t->rounding = 8.0 * DBL_EPSILON * largest;
  return gpuzip_taylor_orders(t);
}

/* Sets `sizes`, if it is 0, and the steps h: `largest`, and each further one half of the one before. */
static inline void gpuzip_taylor_steps(gpuzip_taylor_t *t, double largest)
{
  int i;

  if (t->sizes < 1) t->sizes = 6;
  if (t->sizes > GPUZIP_TAYLOR_MOST) t->sizes = GPUZIP_TAYLOR_MOST;
  for (i = 0; i < t->sizes; i++) t->h[i] = ldexp(largest, -i);
}

/* Does the Taylor test. `changed` returns J(m + h p), `value` is J(m), `slope` is <g, p>, `largest` the
 * largest step h. `user` is passed to `changed`. Returns whether the gradient passes. */
static inline int gpuzip_taylor(gpuzip_taylor_t *t, double (*changed)(void *user, double h), void *user, double value,
                                double slope, double largest)
{
  int i;

  gpuzip_taylor_steps(t, largest);
  t->value = value;
  t->slope = slope;
  for (i = 0; i < t->sizes; i++) t->changed[i] = changed(user, t->h[i]);
  return gpuzip_taylor_judge(t);
}

/* Prints the table of a judged test: a line for each step h, with the remainders and their orders. */
static inline void gpuzip_taylor_table(const gpuzip_taylor_t *t, FILE *out)
{
  int i;

  fprintf(out, "Taylor test: J(m) = %.9e, slope <g, p> = %.9e, rounding of J = %.1e\n", t->value, t->slope, t->rounding);
  fprintf(out, "h          J(m + h p)        remainder 1      order   remainder 2      order\n");
  for (i = 0; i < t->sizes; i++) {
    fprintf(out, "%.3e  %.9e  %.9e", t->h[i], t->changed[i], t->first[i]);
    if (i == 0) fprintf(out, "         %.9e", t->second[i]);
    if (i > 0) fprintf(out, "  %5.3f  %.9e", t->first_order[i - 1], t->second[i]);
    if (i > 0 && !isnan(t->second_order[i - 1])) fprintf(out, "  %5.3f", t->second_order[i - 1]);
    fputc('\n', out);
  }
}

/* Prints the table of a judged test and, in a last line, the decision. */
static inline void gpuzip_taylor_print(const gpuzip_taylor_t *t, FILE *out)
{
  gpuzip_taylor_table(t, out);
  if (t->judged < GPUZIP_TAYLOR_LEAST)
    fprintf(out, "gradient NOT JUDGED: fewer than %d orders of remainder 2 are above rounding; take larger steps, or more precision\n",
            GPUZIP_TAYLOR_LEAST);
  else
    fprintf(out, t->high > 0.0 ? "gradient %s: the %d judged orders of remainder 2 are %.3f to %.3f; they have to be %.1f to %.1f\n"
                               : "gradient %s: the %d judged orders of remainder 2 are %.3f to %.3f; they have to be at least %.1f\n",
            t->passed ? "RIGHT" : "WRONG", t->judged, t->least, t->most, GPUZIP_TAYLOR_ORDER, t->high);
}

/* Internal: the place of 10^decade in a picture whose axis goes from the decade `low` to `high`. */
static inline int gpuzip_taylor_place(double decade, int low, int high, int from, int to)
{
  return from + (int)lround((decade - low) / (high - low) * (to - from));
}

/* Writes a picture of a judged test, as an SVG: both remainders over h with logarithmic axes, and dashed lines
 * of slope 1 and 2 through the remainders of the largest h. Returns 0, or -1 if it cannot be written. */
static inline int gpuzip_taylor_svg(const gpuzip_taylor_t *t, FILE *out)
{
  enum { LEFT = 90, RIGHT = 610, TOP = 20, BOTTOM = 400 };
  static const char *const colour[] = {"#0072b2", "#d55e00"}, *const name[] = {"remainder 1: |J(m + h p) - J(m)|",
                                                                               "remainder 2: |J(m + h p) - J(m) - h &lt;g, p&gt;|"};
  const double *const remainder[] = {t->first, t->second};
  const double widest = log10(t->h[0]), narrowest = log10(t->h[t->sizes - 1]);
  const int x0 = (int)floor(narrowest), x1 = (int)floor(widest) + 1;
  int y0 = 400, y1 = -400, k, i, each;

  for (k = 0; k < 2; k++) /* The decades of all remainders and of both ends of the dashed lines. */
    for (i = 0; i <= t->sizes; i++) {
      const double end = log10(remainder[k][0]) - (k + 1) * (widest - narrowest);
      const double y = i < t->sizes ? log10(remainder[k][i]) : end;
      if (!isfinite(y)) continue;
      if ((int)floor(y) < y0) y0 = (int)floor(y);
      if ((int)floor(y) + 1 > y1) y1 = (int)floor(y) + 1;
    }
  if (y0 > y1) y0 = 0, y1 = 1;
  each = (y1 - y0 + 9) / 10;
  fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 460\" font-family=\"sans-serif\" font-size=\"13\">\n"
               "<title>Taylor test: remainders over the step h</title>\n"
               "<g stroke=\"#ccc\" fill=\"none\">\n");
  for (i = x0; i <= x1; i++)
    fprintf(out, "<path d=\"M%d %dV%d\"/>\n", gpuzip_taylor_place(i, x0, x1, LEFT, RIGHT), TOP, BOTTOM);
  for (i = y0; i <= y1; i += each)
    fprintf(out, "<path d=\"M%d %dH%d\"/>\n", LEFT, gpuzip_taylor_place(i, y0, y1, BOTTOM, TOP), RIGHT);
  fprintf(out, "</g>\n<g text-anchor=\"middle\">\n");
  for (i = x0; i <= x1; i++)
    fprintf(out, "<text x=\"%d\" y=\"%d\">1e%d</text>\n", gpuzip_taylor_place(i, x0, x1, LEFT, RIGHT), BOTTOM + 20, i);
  fprintf(out, "<text x=\"%d\" y=\"%d\">step h</text>\n<text transform=\"translate(22 %d) rotate(-90)\">remainder, in units of J</text>\n</g>\n"
               "<g text-anchor=\"end\">\n", (LEFT + RIGHT) / 2, BOTTOM + 45, (TOP + BOTTOM) / 2);
  for (i = y0; i <= y1; i += each)
    fprintf(out, "<text x=\"%d\" y=\"%d\">1e%d</text>\n", LEFT - 8, gpuzip_taylor_place(i, y0, y1, BOTTOM, TOP) + 4, i);
  for (k = 0; k < 2; k++)
    fprintf(out, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", RIGHT - 8, BOTTOM - 48 + 18 * k, colour[k], name[k]);
  fprintf(out, "<text x=\"%d\" y=\"%d\" fill=\"#555\">dashed: slopes 1 and 2</text>\n</g>\n", RIGHT - 8, BOTTOM - 12);
  for (k = 0; k < 2; k++) {
    const double start = log10(remainder[k][0]), end = start - (k + 1) * (widest - narrowest);
    if (isfinite(start))
      fprintf(out, "<path d=\"M%d %dL%d %d\" stroke=\"#555\" stroke-dasharray=\"5 4\"/>\n", gpuzip_taylor_place(widest, x0, x1, LEFT, RIGHT),
              gpuzip_taylor_place(start, y0, y1, BOTTOM, TOP), gpuzip_taylor_place(narrowest, x0, x1, LEFT, RIGHT),
              gpuzip_taylor_place(end, y0, y1, BOTTOM, TOP));
    for (i = 0; i < t->sizes; i++)
      if (isfinite(log10(remainder[k][i])))
        fprintf(out, "<circle cx=\"%d\" cy=\"%d\" r=\"4\" fill=\"%s\"/>\n", gpuzip_taylor_place(log10(t->h[i]), x0, x1, LEFT, RIGHT),
                gpuzip_taylor_place(log10(remainder[k][i]), y0, y1, BOTTOM, TOP), colour[k]);
  }
  fprintf(out, "</svg>\n");
  return fflush(out) != 0 || ferror(out) ? -1 : 0;
}

/* The result of a dot-product test. */
typedef struct gpuzip_dot_t {
  double forward, adjoint;  /* <A x, y>, <x, A' y> */
  double mismatch;          /* |<A x, y> - <x, A' y>|, relative to the scale */
  double bound;             /* the largest mismatch that passes */
  int passed;               /* 1: mismatch <= bound; 0: it is larger, or NAN */
} gpuzip_dot_t;

/* Judges two inner products that the program has computed. `scale` is |A x| |y|; 0: the larger one of the two,
 * which is stricter. In double precision a bound of 1e-12 suits most operators. */
static inline gpuzip_dot_t gpuzip_dot(double forward, double adjoint, double scale, double bound)
{
  gpuzip_dot_t d;

  if (scale <= 0.0) scale = fmax(fabs(forward), fabs(adjoint));
  d.forward = forward;
  d.adjoint = adjoint;
  d.mismatch = fabs(forward - adjoint) / scale;
  d.bound = bound;
  d.passed = d.mismatch <= bound; /* false for NAN */
  return d;
}

/* Does the dot-product test. `forward` computes A x (ny values) from x (nx values), `adjoint` A' y from y; both overwrite
 * their last argument. The memory is the caller's: x and y become random numbers in -1 to 1, the same on every
 * machine (xorshift64, Marsaglia 2003); ax becomes A x, and aty A' y. */
static inline gpuzip_dot_t gpuzip_dot_test(void (*forward)(void *user, const double *x, double *ax),
                                           void (*adjoint)(void *user, const double *y, double *aty), void *user,
                                           double *x, double *aty, size_t nx, double *y, double *ax, size_t ny, double bound)
{
  uint64_t state = 88172645463325252u;
  double left = 0.0, right = 0.0, of_ax = 0.0, of_y = 0.0;
  size_t i;

  for (i = 0; i < nx + ny; i++) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    *(i < nx ? x + i : y + (i - nx)) = (double)(state >> 11) / 4503599627370496.0 - 1.0;
  }
  forward(user, x, ax);
  adjoint(user, y, aty);
  for (i = 0; i < ny; i++) {
    left += ax[i] * y[i];
    of_ax += ax[i] * ax[i];
    of_y += y[i] * y[i];
  }
  for (i = 0; i < nx; i++) right += x[i] * aty[i];
  return gpuzip_dot(left, right, sqrt(of_ax * of_y), bound);
}

/* Prints a dot-product test in one line: both inner products, the mismatch, and RIGHT or WRONG. */
static inline void gpuzip_dot_print(const gpuzip_dot_t *d, FILE *out)
{
  fprintf(out, "dot-product test: <A x, y> = %.9e, <x, A' y> = %.9e, mismatch %.2e of at most %.0e: adjoint %s\n", d->forward, d->adjoint,
          d->mismatch, d->bound, d->passed ? "RIGHT" : "WRONG");
}

#endif /* GPUZIP_GRADIENT_H */
