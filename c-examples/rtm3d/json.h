/* Prints JSON on stdout. */
#ifndef RTM_JSON_H
#define RTM_JSON_H

/* Prints "key": "text". Characters that JSON does not allow are escaped, invalid UTF-8 is
 * replaced. */
void json_text(const char *key, const char *text);
/* Prints the text alone, in quotes. */
void json_string(const char *text);

#endif
