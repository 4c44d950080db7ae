/* Prints errors and warnings, one line each, on stderr. */
#ifndef RTM_MESSAGE_H
#define RTM_MESSAGE_H

/* The name of the program in messages. */
#ifndef RTM_PROGRAM
#define RTM_PROGRAM "rtm3d"
#endif

/* Prints "rtm3d: ..." (or another RTM_PROGRAM) and returns -1, so that a failing function ends
 * with `return complain(...)`. */
int complain(const char *format, ...);
/* Prints "rtm3d: warning: ...". */
void warn(const char *format, ...);

#endif
