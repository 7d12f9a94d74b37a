package text

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestDecodeJSON(t *testing.T) {
	type inner struct {
		Bytes uint64 `json:"bytes"`
		Share float64
	}
	type plain struct {
		Format  int       `json:"format"`
		Name    string    `json:"name"`
		Machine inner     `json:"machine"`
		List    []string  `json:"list"`
		Fine    bool      `json:"fine"`
		At      time.Time `json:"at"`
	}
	for raw, want := range map[string]string{
		"":                               "f:1: it is empty, and not JSON",
		" \n":                            "f:1: it is empty, and not JSON",
		"<html>\n":                       "f:1: it is HTML or XML, and not JSON",
		"{\n\"name\":":                   "f:2: not JSON: it ends too early",
		"{}\n}":                          "f:2: not JSON: invalid character '}' after top-level value",
		"hello":                          "f:1: not JSON: invalid character 'h'",
		"\x00":                           `f:1: not JSON: invalid character '\x00'`,
		strings.Repeat("[", 100_000):     "f:1: not JSON: exceeded max depth",
		"[1]":                            "f: it is a list, and not a mapping",
		`"a"`:                            "f: it is a text, and not a mapping",
		`{"format": "1"}`:                "f: field format: a text is not a whole number in range",
		`{"format": 1.5}`:                "f: field format: a number 1.5 is not a whole number in range",
		`{"name": 5}`:                    "f: field name: a number is not a text",
		`{"machine": {"bytes": -5}}`:     "f: field machine.bytes: a number -5 is not a whole number of 0 or more",
		`{"machine": {"Share": "much"}}`: "f: field machine.Share: a text is not a number",
		`{"machine": true}`:              "f: field machine: true or false is not a mapping",
		`{"list": {}}`:                   "f: field list: a mapping is not a list",
		`{"fine": 1}`:                    "f: field fine: a number is not true or false",
		`{"at": "yesterday"}`:            `f: "yesterday" is not a time such as 2026-01-31T15:04:05Z`,
	} {
		err := DecodeJSON("f", []byte(raw), &struct{ *plain }{&plain{}})
		if err == nil || !strings.HasPrefix(err.Error(), strings.TrimSuffix(want, "exceeded max depth")) {
			t.Errorf("%.40q: %v, want %s", raw, err, want)
		}
	}
	if err := DecodeJSON("f", []byte("{"), &plain{}); !errors.As(err, new(*json.SyntaxError)) {
		t.Errorf("%T does not wrap the decoder's error", err)
	}
	if err := DecodeJSON("f", []byte(`{"name": "n"}`), &plain{}); err != nil {
		t.Error(err)
	}
}
