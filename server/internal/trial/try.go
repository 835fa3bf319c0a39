package trial

import (
	"bytes"
	"encoding/json"

	"github.com/keywright/keywright/host"
)

// Try is the JSON body of a request to Test of a gateway. It describes a caller's request to the connector.
type Try struct {
	// Method is the method. If it is empty, the first one of the definition is used.
	Method string `json:"method"`
	// Path is the path below the connector, optionally with a query, such as /forecast/oslo?units=metric.
	Path string `json:"path"`
	// Headers are the headers, by name.
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	// BodyBytes is a body that is no text. In JSON, it is base64.
	BodyBytes []byte `json:"body_base64"`
	// User is the user for whom the request is made. In JSON, it is the member user, whose members have the names of templates.
	User host.User `json:"-"`
	// ErrorDescription asks for what token endpoints say about a refusal ([host.Trace].Descriptions).
	ErrorDescription bool `json:"error_description"`
	// AskAnew asks token endpoints although the gateway remembers that they have refused the same request ([host.Trace].AskAnew).
	AskAnew bool `json:"ask_anew"`
}

// plainTry is a Try without methods.
type plainTry Try

// tryDocument is a Try with its user, as JSON has it.
type tryDocument struct {
	plainTry
	User triedUser `json:"user"`
}

// MarshalJSON writes the user's token too, for Test of a gateway.
func (t Try) MarshalJSON() ([]byte, error) {
	u := &t.User
	return json.Marshal(tryDocument{plainTry(t), triedUser{u.ID, u.Email, u.Username, u.FirstName, u.LastName, u.TenantID, u.Token}})
}

// UnmarshalJSON refuses members that a Try does not have.
func (t *Try) UnmarshalJSON(text []byte) error {
	var d tryDocument
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return err
	}
	*t = Try(d.plainTry)
	t.User = d.User.user()
	return nil
}

// triedUser is a [host.User] whose JSON members have the names of its fields in templates.
type triedUser struct {
	ID        string `json:"id"`
	Email     string `json:"email"`
	Username  string `json:"username"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
	TenantID  string `json:"tenant_id"`
	Token     string `json:"token"`
}

func (u *triedUser) user() host.User {
	return host.User{
		ID: u.ID, Email: u.Email, Username: u.Username, FirstName: u.FirstName, LastName: u.LastName, TenantID: u.TenantID, Token: u.Token,
	}
}
