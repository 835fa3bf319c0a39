package template

// Values holds the values of expressions. Each is asked for whenever an expression uses it.
type Values interface {
	Secret(name string) (string, error) // an error, an empty or a blank secret makes the rendering fail
	Variable(name string) (value string, ok bool)
	User() *User      // nil when the request has none
	TenantID() string // "" when it has none
	Now() int64       // Unix time in whole seconds
	UUID() (string, error)
}

// User is the person on whose behalf a request is made. An empty field counts as missing.
type User struct {
	Email, ID, Username, FirstName, LastName string
}

// userFields has the fields of a user by their names in expressions.
var userFields = map[string]func(*User) string{
	"email":      func(u *User) string { return u.Email },
	"id":         func(u *User) string { return u.ID },
	"username":   func(u *User) string { return u.Username },
	"first_name": func(u *User) string { return u.FirstName },
	"last_name":  func(u *User) string { return u.LastName },
}
