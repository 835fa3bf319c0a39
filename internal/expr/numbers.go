package expr

import (
	"cmp"
	"math"
)

func add(r *Run, x, y any) any {
	if s, ok := x.(string); ok {
		if t, ok := y.(string); ok {
			r.make(r.bound(len(s)+len(t), r.limits.Text))
			return s + t
		}
	}
	return r.calculate("+", x, y, func(i, j int64) (int64, bool) {
		return i + j, (i+j > i) == (j > 0)
	}, func(f, g float64) float64 { return f + g })
}

func subtract(r *Run, x, y any) any {
	return r.calculate("-", x, y, func(i, j int64) (int64, bool) {
		return i - j, (i-j < i) == (j > 0)
	}, func(f, g float64) float64 { return f - g })
}

func multiply(r *Run, x, y any) any {
	return r.calculate("*", x, y, func(i, j int64) (int64, bool) {
		return i * j, i == 0 || i*j/i == j && (i != -1 || j != math.MinInt64)
	}, func(f, g float64) float64 { return f * g })
}

// calculate applies integers to two integers, and floats to other numbers. In expr, integers wrap around. Here an overflow is
// an error, so that no wrong time gets into a token.
func (r *Run) calculate(name string, x, y any, integers func(i, j int64) (_ int64, exact bool), floats func(f, g float64) float64) any {
	i, ok1 := x.(int64)
	j, ok2 := y.(int64)
	if !ok1 || !ok2 {
		return r.floats(name, x, y, floats)
	}
	result, exact := integers(i, j)
	if !exact {
		panic(r.failure("the integer is too large"))
	}
	return result
}

func ofFloats(name string, calculate func(f, g float64) float64) operation {
	return func(r *Run, x, y any) any { return r.floats(name, x, y, calculate) }
}

func (r *Run) floats(name string, x, y any, calculate func(f, g float64) float64) any {
	f, ok1 := float(x)
	g, ok2 := float(y)
	if !ok1 || !ok2 {
		panic(r.unfit(name, x, y))
	}
	result := calculate(f, g) + 0 // turns -0 into 0
	if r.inBodies == nil && (math.IsNaN(result) || math.IsInf(result, 0)) {
		panic(r.failure("division by zero, or a number that is too large"))
	}
	return result
}

func remainder(r *Run, x, y any) any {
	i, ok1 := x.(int64)
	j, ok2 := y.(int64)
	switch {
	case !ok1 || !ok2:
		panic(r.unfit("%", x, y))
	case j == 0:
		panic(r.failure("division by zero"))
	}
	return i % j
}

// compareNumbers compares two numbers. ordered is false if one of them is NaN, and ok is false if one is not a number.
func compareNumbers(x, y any) (c int, ordered, ok bool) {
	f, ok1 := float(x)
	g, ok2 := float(y)
	i, ok3 := x.(int64)
	j, ok4 := y.(int64)
	if ok3 && ok4 {
		return cmp.Compare(i, j), true, true
	}
	return cmp.Compare(f, g), f == f && g == g, ok1 && ok2
}

func float(value any) (float64, bool) {
	switch value := value.(type) {
	case int64:
		return float64(value), true
	case float64:
		return value, true
	}
	return 0, false
}
