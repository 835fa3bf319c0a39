package console

import (
	"fmt"
	"html/template"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/operate/difference"
	"github.com/keywright/keywright/server/internal/operate/login"
)

// layout is the data of every page.
type layout struct {
	// Title is the name of the page.
	Title string
	// Navigation has the links to all pages.
	Navigation []link
	Config     Config
	State      *State
	// Login reports whether the operator has logged in, and can log out.
	Login bool
	// Main is the data of the page.
	Main any
}

type link struct {
	Name, Path string
	// Here reports whether this is the page that is shown.
	Here bool
}

// layout returns what every page shows, with a view of a page.
func (c *Console) layout(s *State, r *http.Request, p *page, view any) *layout {
	l := &layout{Title: p.name, Config: c.config, State: s, Login: login.HasSession(r), Main: view}
	for _, navPage := range pages {
		if navPage.path != "" {
			l.Navigation = append(l.Navigation, link{navPage.name, navPage.path, navPage.name == p.name})
		}
	}
	return l
}

// functions returns the functions that templates may call.
func functions(clock func() time.Time) template.FuncMap {
	return template.FuncMap{
		"lasts": lasts, "took": took, "count": count, "rate": rate, "bars": bars,
		"since":   func(t time.Time) time.Duration { return clock().Sub(t) },
		"until":   func(t time.Time) time.Duration { return t.Sub(clock()) },
		"time":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"clock":   func(t time.Time) string { return t.UTC().Format("15:04:05") },
		"seconds": func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) },
		"ceil":    math.Ceil, "join": strings.Join, "printable": host.Printable, "phrase": http.StatusText,
		"first": first[string], "firstChanged": first[difference.Connector], "firstMembers": first[difference.Member],
	}
}

// first returns at most 100 of a list.
func first[T any](all []T) []T { return all[:min(len(all), 100)] }

// lasts returns a duration for people, in its two largest units, such as 3 h 20 min.
func lasts(d time.Duration) string {
	units := []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}}
	d = max(0, d)
	for i, unit := range units {
		n := d / unit.size
		switch {
		case n == 0 && i < len(units)-1:
			continue
		case i == len(units)-1 || n >= 10 || unit.size == time.Minute:
			return fmt.Sprintf("%d %s", n, unit.name)
		}
		if rest := d % unit.size / units[i+1].size; rest > 0 {
			return fmt.Sprintf("%d %s %d %s", n, unit.name, rest, units[i+1].name)
		}
		return fmt.Sprintf("%d %s", n, unit.name)
	}
	return ""
}

// took returns a short duration for people, such as 1.2 ms.
func took(d time.Duration) string {
	switch {
	case d <= 0:
		return "–"
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < 10*time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// count returns a whole number with a thin space between each three digits.
func count(n any) string {
	digits := fmt.Sprint(n)
	var b strings.Builder
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteRune('\u2009')
		}
		b.WriteRune(digit)
	}
	return b.String()
}
