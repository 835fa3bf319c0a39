package testworld

// Trial lets package conform run many cases with one host.
type Trial struct {
	// HideSecret sets a secret of the host, of which only a part is searched for.
	HideSecret func(name, value, part string)
	// Begin begins a case, whose connectors have the name.
	Begin func(connection string)
	// Reseed has the randomness of the host begin anew.
	Reseed func(seed string)
	// Dropped reports whether the host has dropped the text of an error.
	Dropped func(err error) bool
	// End forgets the case, and returns its leaks.
	End func() (leaks []string)
}

// NewTrial returns the Trial of a *hosttest.Harness that has not been used. Package hosttest sets it.
var NewTrial func(harness any) Trial
