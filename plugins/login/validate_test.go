package main

import (
	"strings"
	"testing"

	"github.com/keywright/keywright/host/hosttest"
)

// All problems are reported at once, each with its path.
func TestProblems(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for text, c := range map[string]hosttest.Config{
			"login_url token_from key":                                    {},
			"login_url login_request in token_ttl url":                    config("login_url", "http://api.test", "login_request", "xml", "in", "body", "token_ttl", 0, "url", "x"),
			"token_from expires_at_from":                                  config("token_from", "body:/a", "expires_at_from", "{{ user.id }}"),
			"first_answer_from":                                           config("second_url", second),
			"extra_from":                                                  config("extra_header", "X-CSRF"),
			"login_headers second_headers login_body":                     config("login_headers", object{"a": []any{}}, "second_url", second, "first_answer_from", "json:/a", "second_headers", object{"a": nil}, "login_request", "form", "login_body", object{"a": object{}}),
			"login_headers.Host second_headers.a:b":                       config("login_headers", object{"Host": "a"}, "second_url", second, "first_answer_from", "json:/a", "second_headers", object{"a:b": "1", "X-A": "{first_answer}"}),
			"extra_header":                                                config("extra_from", "header:X-CSRF", "extra_header", "X CSRF"),
			"extra_header extra_from":                                     config("extra_header", " "),
			"first_answer_from second_request second_body second_headers": config("first_answer_from", "json:/a", "second_request", "form", "second_body", object{}, "second_headers", object{}),
			"login_again":                                                 config("login_again", "401 500"),
			"key":                                                         config("key", "Host"),
			"key prefix":                                                  config("in", "cookie", "key", "a b"),
			"prefix":                                                      config("in", "query", "key", "Host"),
			"":                                                            config("in", "cookie", "key", "Host", "prefix", nil),
		} {
			var paths []string
			for _, problem := range h.Problems(c) {
				paths = append(paths, strings.TrimPrefix(problem.Path, "auth.config."))
			}
			for _, path := range strings.Fields(text) {
				if !strings.Contains(" "+strings.Join(paths, " ")+" ", " "+path+" ") {
					t.Errorf("no problem at %s, but at %v", path, paths)
				}
			}
			if len(paths) != len(strings.Fields(text)) {
				t.Errorf("problems at %v, not at %s", paths, text)
			}
		}
	})
}
