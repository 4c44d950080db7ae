#include "message.h"

#include <stdarg.h>
#include <stdio.h>

/* The length of the longest line that is printed whole. */
#define LINE_BYTES 4096

/* Prints one line in one write, so that lines of several ranks or threads stay whole. */
static void print_line(const char *prefix, const char *format, va_list args)
{
    char line[LINE_BYTES];
    vsnprintf(line, sizeof line, format, args);
    fprintf(stderr, "%s%s\n", prefix, line);
}

int complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(RTM_PROGRAM ": ", format, args);
    va_end(args);
    return -1;
}

void warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(RTM_PROGRAM ": warning: ", format, args);
    va_end(args);
}
