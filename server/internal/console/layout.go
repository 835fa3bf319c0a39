package console

import (
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/keywright/keywright/server/internal/difference"
	"github.com/keywright/keywright/server/internal/login"
)

// layout is the data of every page.
type layout struct {
	// Title is the name of the page.
	Title string
	// Navigation has the links to all pages.
	Navigation []link
	// Version and Node are those of Config.
	Version, Node string
	// SHA256 is the beginning of the digest of the configuration in use.
	SHA256 string
	// Up is the time since the program started.
	Up time.Duration
	// Used is the time since the configuration was put in use.
	Used time.Duration
	// Login reports whether the operator has logged in, and can log out.
	Login bool
	// Refused is the first problem of the file on disk if it is not in use, with the number of further ones.
	Refused string
	More    int
	// Unrecorded says why the audit log cannot be written. It is empty if it can be, or if there is none.
	Unrecorded string
	// Main is the data of the page.
	Main any
}

// link is an entry of the navigation.
type link struct {
	Name, Path string
	// Here reports whether this is the page that is shown.
	Here bool
}

// layout returns what every page shows, with a view of a page.
func (c *Console) layout(s *State, r *http.Request, p *page, view any) *layout {
	now := c.config.Clock()
	l := &layout{
		Title: p.name, Version: c.config.Version, Node: c.config.Node, SHA256: s.Set.SHA256[:min(len(s.Set.SHA256), 8)],
		Up: now.Sub(c.config.Started), Used: now.Sub(s.Used), Unrecorded: s.Unrecorded, Login: login.HasSession(r), Main: view,
	}
	for _, other := range pages {
		if other.path != "" {
			l.Navigation = append(l.Navigation, link{other.name, other.path, other.name == p.name})
		}
	}
	if len(s.Problems) > 0 {
		l.Refused, l.More = s.Problems[0].Text, len(s.Problems)-1
	}
	return l
}

// functions are those that templates may call.
var functions = template.FuncMap{
	"lasts":   lasts,
	"time":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"clock":   func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"count":   count,
	"count64": func(n int64) string { return count(uint64(max(0, n))) },
	"took":    took,
	"first":   first[string], "firstChanged": first[difference.Connector], "firstMembers": first[difference.Member],
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

// count returns a number with a thin space between each three digits.
func count(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteRune('\u2009')
		}
		b.WriteRune(digit)
	}
	return b.String()
}
