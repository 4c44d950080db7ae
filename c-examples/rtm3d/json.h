/* JSON on stdout. */
#ifndef RTM_JSON_H
#define RTM_JSON_H

/* "key": "text", with what JSON does not allow in a text escaped, and what is no text replaced. */
void json_text(const char *key, const char *text);
/* The text alone, in quotes. */
void json_string(const char *text);

#endif
