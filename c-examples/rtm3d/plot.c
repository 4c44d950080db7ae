#include "plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "png.h"

enum {
    LONG = 800,  /* pixels of the slice's longer side */
    /* The shorter side has at least LONG / FLAT pixels; a flatter slice is stretched, as its
     * axis says. */
    FLAT = 4,
    DOTS = 2,    /* pixels per dot of a glyph */
    ADVANCE = 6 * DOTS,
    TEXT = 7 * DOTS,
    TICK = 6,
    GAP = 10,
    BAR = 18,    /* width of the grey scale */
    LEFT = 7 * ADVANCE,
    TOP = 2 * TEXT + 3 * GAP,
    BOTTOM = 2 * TEXT + 2 * GAP + TICK,
    NARROW = 640,          /* least width of the picture, for the note below */
    LINE = TEXT + 2 * DOTS, /* distance of the note's lines */
    RIGHT = 3 * GAP + BAR + TICK + 7 * ADVANCE
};

typedef struct canvas_t {
    unsigned char *pixels;
    size_t width, height;
    size_t w, h;  /* of the slice, whose corner is (LEFT, TOP) */
} canvas_t;

/* Letters as five columns of eight dots: the lowest bit is the top dot, the highest bit lies
 * below the line. */
static const struct glyph {
    char letter;
    unsigned char column[5];
} GLYPHS[] = {
    {'0', {0x3e, 0x51, 0x49, 0x45, 0x3e}}, {'1', {0x00, 0x42, 0x7f, 0x40, 0x00}}, {'2', {0x42, 0x61, 0x51, 0x49, 0x46}},
    {'3', {0x21, 0x41, 0x45, 0x4b, 0x31}}, {'4', {0x18, 0x14, 0x12, 0x7f, 0x10}}, {'5', {0x27, 0x45, 0x45, 0x45, 0x39}},
    {'6', {0x3c, 0x4a, 0x49, 0x49, 0x30}}, {'7', {0x01, 0x71, 0x09, 0x05, 0x03}}, {'8', {0x36, 0x49, 0x49, 0x49, 0x36}},
    {'9', {0x06, 0x49, 0x49, 0x29, 0x1e}}, {'a', {0x20, 0x54, 0x54, 0x54, 0x78}}, {'b', {0x7f, 0x48, 0x44, 0x44, 0x38}},
    {'c', {0x38, 0x44, 0x44, 0x44, 0x28}}, {'d', {0x38, 0x44, 0x44, 0x48, 0x7f}}, {'e', {0x38, 0x54, 0x54, 0x54, 0x18}},
    {'f', {0x08, 0x7e, 0x09, 0x01, 0x02}}, {'g', {0x18, 0xa4, 0xa4, 0xa4, 0x7c}}, {'h', {0x7f, 0x08, 0x04, 0x04, 0x78}},
    {'i', {0x00, 0x44, 0x7d, 0x40, 0x00}}, {'j', {0x40, 0x80, 0x84, 0x7d, 0x00}}, {'k', {0x7f, 0x10, 0x28, 0x44, 0x00}},
    {'l', {0x00, 0x41, 0x7f, 0x40, 0x00}}, {'m', {0x7c, 0x04, 0x18, 0x04, 0x78}}, {'n', {0x7c, 0x08, 0x04, 0x04, 0x78}},
    {'o', {0x38, 0x44, 0x44, 0x44, 0x38}}, {'p', {0xfc, 0x24, 0x24, 0x24, 0x18}}, {'q', {0x18, 0x24, 0x24, 0x24, 0xfc}},
    {'r', {0x7c, 0x08, 0x04, 0x04, 0x08}}, {'s', {0x48, 0x54, 0x54, 0x54, 0x20}}, {'t', {0x04, 0x3f, 0x44, 0x40, 0x20}},
    {'u', {0x3c, 0x40, 0x40, 0x20, 0x7c}}, {'v', {0x1c, 0x20, 0x40, 0x20, 0x1c}}, {'w', {0x3c, 0x40, 0x30, 0x40, 0x3c}},
    {'x', {0x44, 0x28, 0x10, 0x28, 0x44}}, {'y', {0x1c, 0xa0, 0xa0, 0xa0, 0x7c}}, {'z', {0x44, 0x64, 0x54, 0x4c, 0x44}},
    {'A', {0x7e, 0x11, 0x11, 0x11, 0x7e}}, {'B', {0x7f, 0x49, 0x49, 0x49, 0x36}}, {'C', {0x3e, 0x41, 0x41, 0x41, 0x22}},
    {'D', {0x7f, 0x41, 0x41, 0x22, 0x1c}}, {'E', {0x7f, 0x49, 0x49, 0x49, 0x41}}, {'F', {0x7f, 0x09, 0x09, 0x09, 0x01}},
    {'G', {0x3e, 0x41, 0x49, 0x49, 0x7a}}, {'H', {0x7f, 0x08, 0x08, 0x08, 0x7f}}, {'I', {0x00, 0x41, 0x7f, 0x41, 0x00}},
    {'J', {0x20, 0x40, 0x41, 0x3f, 0x01}}, {'K', {0x7f, 0x08, 0x14, 0x22, 0x41}}, {'L', {0x7f, 0x40, 0x40, 0x40, 0x40}},
    {'M', {0x7f, 0x02, 0x0c, 0x02, 0x7f}}, {'N', {0x7f, 0x04, 0x08, 0x10, 0x7f}}, {'O', {0x3e, 0x41, 0x41, 0x41, 0x3e}},
    {'P', {0x7f, 0x09, 0x09, 0x09, 0x06}}, {'Q', {0x3e, 0x41, 0x51, 0x21, 0x5e}}, {'R', {0x7f, 0x09, 0x19, 0x29, 0x46}},
    {'S', {0x46, 0x49, 0x49, 0x49, 0x31}}, {'T', {0x01, 0x01, 0x7f, 0x01, 0x01}}, {'U', {0x3f, 0x40, 0x40, 0x40, 0x3f}},
    {'V', {0x1f, 0x20, 0x40, 0x20, 0x1f}}, {'W', {0x3f, 0x40, 0x38, 0x40, 0x3f}}, {'X', {0x63, 0x14, 0x08, 0x14, 0x63}},
    {'Y', {0x07, 0x08, 0x70, 0x08, 0x07}}, {'Z', {0x61, 0x51, 0x49, 0x45, 0x43}},
    {'.', {0x00, 0x60, 0x60, 0x00, 0x00}}, {',', {0x00, 0xa0, 0x60, 0x00, 0x00}}, {'-', {0x08, 0x08, 0x08, 0x08, 0x08}},
    {'+', {0x08, 0x08, 0x3e, 0x08, 0x08}}, {'/', {0x20, 0x10, 0x08, 0x04, 0x02}}, {'(', {0x00, 0x1c, 0x22, 0x41, 0x00}},
    {')', {0x00, 0x41, 0x22, 0x1c, 0x00}}, {':', {0x00, 0x36, 0x36, 0x00, 0x00}}, {'=', {0x14, 0x14, 0x14, 0x14, 0x14}},
    {'_', {0x40, 0x40, 0x40, 0x40, 0x40}}, {'%', {0x23, 0x13, 0x08, 0x64, 0x62}}, {'|', {0x00, 0x00, 0x7f, 0x00, 0x00}}, {'^', {0x04, 0x02, 0x01, 0x02, 0x04}}, {';', {0x00, 0xac, 0x6c, 0x00, 0x00}},
};

static void box(canvas_t *c, size_t x0, size_t y0, size_t w, size_t h, unsigned char grey)
{
    for (size_t y = y0; y < y0 + h && y < c->height; y++)
        for (size_t x = x0; x < x0 + w && x < c->width; x++)
            c->pixels[y * c->width + x] = grey;
}

static void letter(canvas_t *c, size_t x, size_t y, char which)
{
    for (size_t g = 0; g < sizeof GLYPHS / sizeof *GLYPHS; g++) {
        if (GLYPHS[g].letter != which)
            continue;
        for (size_t i = 0; i < 5; i++)
            for (size_t j = 0; j < 8; j++)
                if (GLYPHS[g].column[i] >> j & 1)
                    box(c, x + i * DOTS, y + j * DOTS, DOTS, DOTS, 0);
    }
}

/* Draws text with its left edge (anchor 0), middle (0.5) or right edge (1) at x; text outside
 * the picture is cut. */
static void text(canvas_t *c, size_t x, size_t y, double anchor, const char *string)
{
    const double left = (double)x - anchor * (double)(strlen(string) * ADVANCE);

    x = left > 0.0 ? (size_t)left : 0;
    for (; *string != '\0' && x + ADVANCE <= c->width; string++, x += ADVANCE)
        letter(c, x, y, *string);
}

/* Writes the note below the picture in lines that fit its width, or only counts the lines (pixels NULL). */
static size_t note(canvas_t *c, size_t y, const char *string)
{
    const size_t most = (c->width - 2 * GAP) / ADVANCE;
    size_t lines = 0;

    for (; string != NULL && *string != '\0'; lines++) {
        size_t n = strlen(string);
        char line[256];
        if (n > most)
            for (n = most; n > 1 && string[n] != ' '; n--)
                ;
        snprintf(line, sizeof line, "%.*s", (int)n, string);
        if (c->pixels != NULL)
            text(c, GAP, y + lines * LINE, 0.0, line);
        for (string += n; *string == ' '; string++)
            ;
    }
    return lines;
}

/* Labels both axes in kilometres if one of them is long in metres. */
static plot_t in_kilometres(plot_t p)
{
    axis_t *const axes[] = {&p.x, &p.y};
    const int in_metres = strcmp(p.x.unit, "m") == 0 && strcmp(p.y.unit, "m") == 0;
    const int is_long = in_metres && fmax(fabs(p.x.to), fabs(p.y.to)) >= 2000.0;

    for (int k = 0; is_long && k < 2; k++) {
        axes[k]->unit = "km";
        axes[k]->from /= 1000.0;
        axes[k]->to /= 1000.0;
    }
    return p;
}

/* Writes an axis's name and unit, and the factor by which the slice is stretched along it. */
static void caption(const axis_t *a, double stretch, char *out, size_t size)
{
    const int n = snprintf(out, size, *a->unit != '\0' ? "%s (%s)" : "%s", a->name, a->unit);

    if (stretch > 1.01 && n > 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n, " x %.3g", stretch);
}

/* The distance of ticks: 1, 2 or 5 times a power of ten, with at most `ticks` ticks in
 * `extent`. */
static double tick_step(double extent, double ticks)
{
    const double least = extent / fmax(1.0, ticks), unit = pow(10.0, floor(log10(least)));
    return least <= unit ? unit : least <= 2.0 * unit ? 2.0 * unit : least <= 5.0 * unit ? 5.0 * unit : 10.0 * unit;
}

/* Draws ticks and their numbers along `pixels` pixels from (x, y): to the right with numbers
 * below, or down with numbers on the left. */
static void ticks(canvas_t *c, const axis_t *a, size_t x, size_t y, size_t pixels, int down)
{
    const double from = a->from, to = a->to, extent = to - from;
    const double step = tick_step(extent, (double)pixels / (down ? 50.0 : 90.0));

    for (double k = ceil(from / step - 1e-9); extent > 0.0 && k * step <= to + 1e-9 * extent; k++) {
        const size_t at = (size_t)((k * step - from) / extent * (double)(pixels - 1) + 0.5);
        char number[32];
        snprintf(number, sizeof number, "%.6g", k == 0.0 ? 0.0 : k * step);
        if (down) {
            box(c, x - TICK, y + at, TICK, 2, 0);
            text(c, x - TICK - DOTS, y + at - TEXT / 2, 1.0, number);
        } else {
            box(c, x + at, y, 2, TICK, 0);
            text(c, x + at, y + TICK + 4, 0.5, number);
        }
    }
}

/* The value at (x, y) in cells, interpolated between the centres of cells. */
static double between(const plot_t *p, double x, double y)
{
    const double xc = fmax(0.0, fmin((double)(p->width - 1), x - 0.5)), yc = fmax(0.0, fmin((double)(p->height - 1), y - 0.5));
    const size_t x0 = (size_t)xc, x1 = x0 + 1 < p->width ? x0 + 1 : x0, y0 = (size_t)yc, y1 = y0 + 1 < p->height ? y0 + 1 : y0;
    const double fx = xc - (double)x0, fy = yc - (double)y0;
    const float *const upper = p->cells + y0 * p->width, *const lower = p->cells + y1 * p->width;

    return (1.0 - fy) * ((1.0 - fx) * upper[x0] + fx * upper[x1]) + fy * ((1.0 - fx) * lower[x0] + fx * lower[x1]);
}

/* The mean over a pixel that covers `dx` x `dy` cells from (x, y) on, with one sample for each
 * cell. */
static double mean_of(const plot_t *p, double x, double y, double dx, double dy)
{
    const size_t columns = (size_t)ceil(dx), rows = (size_t)ceil(dy);
    double sum = 0.0;

    for (size_t j = 0; j < rows; j++)
        for (size_t i = 0; i < columns; i++)
            sum += between(p, x + dx * ((double)i + 0.5) / (double)columns, y + dy * ((double)j + 0.5) / (double)rows);
    return sum / (double)(rows * columns);
}

static void frame(canvas_t *c, size_t x, size_t y, size_t w, size_t h)
{
    box(c, x - 2, y - 2, w + 4, 2, 0);
    box(c, x - 2, y + h, w + 4, 2, 0);
    box(c, x - 2, y, 2, h, 0);
    box(c, x + w, y, 2, h, 0);
}

static void draw_slice(canvas_t *c, const plot_t *p)
{
    const double dx = (double)p->width / (double)c->w, dy = (double)p->height / (double)c->h;
    const double scale = p->grey.to > p->grey.from ? 255.0 / (p->grey.to - p->grey.from) : 0.0;

    for (size_t y = 0; y < c->h; y++)
        for (size_t x = 0; x < c->w; x++) {
            const double v = mean_of(p, dx * (double)x, dy * (double)y, dx, dy);
            c->pixels[(TOP + y) * c->width + LEFT + x] = (unsigned char)(fmax(0.0, fmin(255.0, (v - p->grey.from) * scale)) + 0.5);
        }
    frame(c, LEFT, TOP, c->w, c->h);
}

/* Draws the grey scale, with white, the largest value, on top. */
static void draw_scale(canvas_t *c, const plot_t *p)
{
    const size_t x = LEFT + c->w + 3 * GAP;
    const double range = p->grey.to - p->grey.from, step = tick_step(range, (double)c->h / 50.0);
    char name[64];

    for (size_t y = 0; y < c->h; y++)
        box(c, x, TOP + y, BAR, 1, (unsigned char)(255 - y * 255 / (c->h - 1)));
    frame(c, x, TOP, BAR, c->h);
    for (double k = ceil(p->grey.from / step - 1e-9); range > 0.0 && k * step <= p->grey.to + 1e-9 * range; k++) {
        const size_t at = (size_t)((p->grey.to - k * step) / range * (double)(c->h - 1) + 0.5);
        char number[32];
        snprintf(number, sizeof number, "%.6g", k == 0.0 ? 0.0 : k * step);
        box(c, x + BAR + 2, TOP + at, TICK, 2, 0);
        text(c, x + BAR + TICK + DOTS + 4, TOP + at - TEXT / 2, 0.0, number);
    }
    caption(&p->grey, 1.0, name, sizeof name);
    text(c, LEFT + c->w + RIGHT - DOTS, GAP + TEXT + GAP, 1.0, name);
}

/* Computes the size of the slice in pixels: its shape, unless it is too flat. Returns the
 * factor by which the shorter side is stretched. */
static double size_of(const plot_t *p, size_t *w, size_t *h)
{
    const double larger = (double)(p->width > p->height ? p->width : p->height), smaller = (double)(p->width > p->height ? p->height : p->width);
    const double shorter = fmax((double)LONG * smaller / larger, (double)LONG / FLAT);
    const size_t side = (size_t)(shorter + 0.5);

    *w = p->width >= p->height ? LONG : side;
    *h = p->width >= p->height ? side : LONG;
    return shorter * larger / ((double)LONG * smaller);
}

static void draw(canvas_t *c, const plot_t *p, double stretch)
{
    const int flat = p->width >= p->height;
    char name[64];

    box(c, 0, 0, c->width, c->height, 255);
    draw_slice(c, p);
    draw_scale(c, p);
    ticks(c, &p->x, LEFT, TOP + c->h + 2, c->w, 0);
    ticks(c, &p->y, LEFT - 2, TOP, c->h, 1);
    text(c, GAP, GAP, 0.0, p->title);
    caption(&p->y, flat ? stretch : 1.0, name, sizeof name);
    text(c, GAP, GAP + TEXT + GAP, 0.0, name);
    caption(&p->x, flat ? 1.0 : stretch, name, sizeof name);
    text(c, LEFT + c->w / 2, TOP + c->h + 2 + TICK + TEXT + GAP, 0.5, name);
    note(c, TOP + c->h + BOTTOM, p->note);
}

int plot_write(const plot_t *plot, const char *path)
{
    const plot_t p = in_kilometres(*plot);
    canvas_t c = {.pixels = NULL};
    const double stretch = size_of(&p, &c.w, &c.h);
    int status = -1;

    c.width = LEFT + c.w + RIGHT > NARROW ? LEFT + c.w + RIGHT : NARROW;
    c.height = TOP + c.h + BOTTOM + note(&c, 0, p.note) * LINE;
    c.pixels = malloc(c.width * c.height);
    if (c.pixels != NULL) {
        draw(&c, &p, stretch);
        status = png_write(path, c.pixels, c.width, c.height);
    }
    free(c.pixels);
    return status;
}
