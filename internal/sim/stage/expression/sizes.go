package expression

import (
	"fmt"
	"math/big"
	"sync"

	"github.com/itchyny/gojq"
)

// Bounds on what an expression makes. gojq counts steps, and one step can double a
// text: forty of them would make a terabyte of it.
const (
	maxMade    = 16 << 20 // bytes of the values that one evaluation makes
	maxNumber  = 1 << 16  // bits
	maxIndex   = 1_000_000
	maxSubject = 8 << 10 // bytes of a text that sub and gsub look at: they copy it for each match
	maxJoint   = 64      // bytes between texts that are joined
	nodeSize   = 16      // bytes that a value takes at least
)

// The functions that bounded expressions call.
const (
	madeFunc    = "__made"
	timesFunc   = "__times"
	indexFunc   = "__index"
	pathFunc    = "__path"
	subjectFunc = "__subject"
	jointFunc   = "__joint"
)

// program is an expression that gojq runs, with the account of what it makes. It
// serves one goroutine at a time.
type program struct {
	code  *gojq.Code
	times *gojq.Code // the product of two values
	left  int        // bytes that may still be made
}

// newProgramPool returns a pool of programs of an expression, which is rewritten.
func newProgramPool(q *gojq.Query) (*sync.Pool, error) {
	rewriteBounded(q)
	bounded := q.String()
	first, err := newProgram(bounded)
	if err != nil {
		return nil, err
	}
	pool := &sync.Pool{New: func() any {
		p, _ := newProgram(bounded) // as the first one was
		return p
	}}
	pool.Put(first)
	return pool, nil
}

// newProgram compiles a text that bound has written.
func newProgram(bounded string) (*program, error) {
	parsed, err := gojq.Parse(bounded)
	if err != nil {
		return nil, err
	}
	p := &program{}
	product, err := gojq.Parse("$a * $b")
	if err == nil {
		p.times, err = gojq.Compile(product, gojq.WithVariables([]string{"$a", "$b"}))
	}
	if err != nil {
		return nil, err
	}
	p.code, err = gojq.Compile(parsed,
		gojq.WithFunction(madeFunc, 0, 0, func(v any, _ []any) any { return p.chargeMade(v) }),
		gojq.WithFunction(timesFunc, 2, 2, func(_ any, of []any) any { return p.multiplyBounded(of[0], of[1]) }),
		gojq.WithFunction(indexFunc, 0, 0, func(v any, _ []any) any { return checkIndex(v) }),
		gojq.WithFunction(pathFunc, 0, 0, func(v any, _ []any) any { return checkPath(v) }),
		gojq.WithFunction(subjectFunc, 0, 0, func(v any, _ []any) any { return checkLength(v, maxSubject) }),
		gojq.WithFunction(jointFunc, 0, 0, func(v any, _ []any) any { return checkLength(v, maxJoint) }))
	return p, err
}

// runOn runs the program on a value.
func (p *program) runOn(v any) gojq.Iter {
	p.left = maxMade
	return p.code.RunWithContext(newBudget(), v)
}

type sizeError string

func (e sizeError) Error() string { return "jq: " + string(e) }

const errMade sizeError = "more is made than an expression may"

// chargeMade takes a value to account.
func (p *program) chargeMade(v any) any {
	if p.chargeValue(v); p.left < 0 {
		return errMade
	}
	if n, ok := v.(*big.Int); ok && n.BitLen() > maxNumber {
		return sizeError(fmt.Sprintf("a number of more than %d bits", maxNumber))
	}
	return v
}

// chargeValue counts a value as a tree: what stands in it twice counts twice, as it
// does for whoever writes or compares it.
func (p *program) chargeValue(v any) {
	if p.left -= nodeSize; p.left < 0 {
		return
	}
	switch v := v.(type) {
	case string:
		p.left -= len(v)
	case *big.Int:
		p.left -= v.BitLen() / 8
	case []any:
		for _, x := range v {
			if p.chargeValue(x); p.left < 0 {
				return
			}
		}
	case map[string]any:
		for key, x := range v {
			p.left -= len(key)
			if p.chargeValue(x); p.left < 0 {
				return
			}
		}
	}
}

// multiplyBounded multiplies; a text is repeated.
func (p *program) multiplyBounded(a, b any) any {
	text, ok := a.(string)
	times := b
	if !ok {
		text, ok = b.(string)
		times = a
	}
	if n, isNumber := toFloat(times); ok && isNumber && float64(len(text))*n > float64(p.left) {
		return errMade
	}
	v, _ := p.times.Run(nil, a, b).Next()
	if _, failed := v.(error); failed {
		return v
	}
	return p.chargeMade(v)
}

// toFloat returns a number of gojq's.
func toFloat(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case float64:
		return n, true
	case *big.Int:
		f, _ := new(big.Float).SetInt(n).Float64()
		return f, true
	}
	return 0, false
}

// checkIndex refuses a place that would make a list of that length.
func checkIndex(v any) any {
	if n, ok := toFloat(v); ok && n > maxIndex {
		return sizeError(fmt.Sprintf("an index above %d", maxIndex))
	}
	return v
}

func checkPath(v any) any {
	list, _ := v.([]any)
	for _, step := range list {
		if err, failed := checkIndex(step).(error); failed {
			return err
		}
	}
	return v
}

func checkLength(v any, maxLength int) any {
	if text, ok := v.(string); ok && len(text) > maxLength {
		return sizeError(fmt.Sprintf("a text of more than %d bytes", maxLength))
	}
	return v
}
