package describe

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/internal/contract"
)

// checkAbout checks the texts of a description that say where the plugin and its credentials come from. They are shown to people,
// at terminals and in editors, so that they may hold nothing but printable text.
func checkAbout(d *abi.Description) error {
	var problems []error
	check := func(name, text string) {
		if len(text) > contract.MaxAbout || printableText(text) != text {
			problems = append(problems, fmt.Errorf("%s has more than %d bytes, or characters that cannot be printed", name, contract.MaxAbout))
		}
	}
	check("homepage", d.Homepage)
	check("license", d.License)
	for _, f := range d.Fields {
		check("field "+printableText(f.Name)+": obtain", f.Obtain)
		check("field "+printableText(f.Name)+": pattern_message", f.PatternMessage)
	}
	if u, err := url.Parse(d.Homepage); d.Homepage != "" && (err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil) {
		problems = append(problems, errors.New("homepage is no https URL of a page"))
	}
	return errors.Join(problems...)
}

// About returns the text about a field for users: its purpose, and the way to get its value.
func About(f *abi.Field) string {
	if f.Doc == "" || f.Obtain == "" {
		return f.Doc + f.Obtain
	}
	return f.Doc + " " + f.Obtain
}
