package promql

import (
	"errors"
	"fmt"
	"strings"

	engine "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

var (
	// ErrTimeout says that a query took longer than Options.Timeout.
	ErrTimeout = errors.New("the query took too long")
	// ErrCanceled says that whoever asked did not wait for the answer.
	ErrCanceled = errors.New("the query was canceled")
	// ErrTooMuch says that a query would hold more than Options.MaxSamples.
	ErrTooMuch = errors.New("the query needs too many samples")
)

// ExprError says what is wrong with an expression, and where.
type ExprError struct {
	Expr         string
	Line, Column int // from 1, in bytes; 0 where no place is at fault
	Err          error
}

// Error begins with the place, as LINE:COLUMN, where there is one.
func (e *ExprError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("expression %q: %v", e.Expr, e.Err)
	}
	return fmt.Sprintf("expression %q: %d:%d: %v", e.Expr, e.Line, e.Column, e.Err)
}

// Unwrap returns the fault without its place.
func (e *ExprError) Unwrap() error { return e.Err }

// exprError turns the parser's error into ours.
func exprError(expr string, err error) error {
	var all parser.ParseErrors
	var first *parser.ParseErr
	switch {
	case errors.As(err, &all) && len(all) > 0:
		first = &all[0]
	case errors.As(err, &first):
	default:
		return &ExprError{Expr: expr, Err: err}
	}
	at := min(max(int(first.PositionRange.Start), 0), len(expr))
	line := 1 + strings.Count(expr[:at], "\n")
	return &ExprError{Expr: expr, Line: line, Column: at - strings.LastIndexByte(expr[:at], '\n'), Err: first.Err}
}

// evalError turns the engine's error into ours.
func evalError(expr string, err error) error {
	var timeout engine.ErrQueryTimeout
	var canceled engine.ErrQueryCanceled
	var tooMany engine.ErrTooManySamples
	switch {
	case errors.As(err, &timeout):
		err = ErrTimeout
	case errors.As(err, &canceled):
		err = ErrCanceled
	case errors.As(err, &tooMany):
		err = ErrTooMuch
	}
	return fmt.Errorf("evaluate %q: %w", expr, err)
}
