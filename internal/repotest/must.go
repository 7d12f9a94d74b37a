package repotest

import (
	"fmt"
	"reflect"
	"testing"
)

// NoError ends the test at an error. Where there is none it costs nothing, also in the loop
// of a benchmark.
func NoError(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Must returns the value of a call without which the test cannot go on, and ends the test
// at the call's error: client := Must(newClient(config))(t).
func Must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return value
	}
}

// Equal reports a value that is not as it should be, after what it is of. An empty slice or
// map is equal to none.
func Equal[T any](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if isEmpty(got) && isEmpty(want) || reflect.DeepEqual(got, want) {
		return
	}
	t.Errorf("%s: %+v, want %+v", fmt.Sprintf(what, args...), got, want)
}

func isEmpty(value any) bool {
	v := reflect.ValueOf(value)
	return (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}
