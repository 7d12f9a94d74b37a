package repotest

import "testing"

// NoError ends the test at an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must returns the value of a call without which the test cannot go on, and ends the test
// at the call's error: client := Must(newClient(config))(t).
func Must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		NoError(t, err)
		return value
	}
}
