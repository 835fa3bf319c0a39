package imports

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// amazon returns how an API Gateway of Amazon authorizes, or "". It is custom for a plain key.
func amazon(n *node) string {
	if kind := n.string("x-amazon-apigateway-authtype"); strings.HasPrefix(kind, "aws") {
		return kind
	}
	return ""
}

var regionSyntax = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]$`)

// aws makes the auth of a signature of AWS.
func (s *schemer) aws(name, kind string) error {
	switch kind {
	case "awsSigv4":
	case "awsS3":
		s.note("the document has the signatures that S3 had at first; the connector signs with Version 4, which S3 takes everywhere")
	default:
		return fmt.Errorf("the scheme %s is %s, which is older than Signature Version 4: no auth type has it", name, kind)
	}
	c := s.result.Connector
	c.Type = "aws_sigv4"
	c.Config.add("access_key_id", s.secret("access-key-id", "the access key ID"))
	c.Config.add("secret_access_key", s.secret("secret-access-key", "the secret access key"))
	region, service := s.place()
	c.Config.add("region", literal(region))
	c.Config.add("service", literal(service))
	return nil
}

// place returns the region and the service for signatures, by the host of the API: SERVICE.REGION.amazonaws.com, with more labels in
// front of it, or without the region.
func (s *schemer) place() (region, service string) {
	region, service = s.server.variables["region"], ""
	u, err := url.Parse(s.server.url)
	if err != nil {
		return region, service
	}
	for _, label := range strings.Split(u.Hostname(), ".") {
		switch {
		case regionSyntax.MatchString(label):
			region = label
		case label == "amazonaws" || label == "aws":
			if region == "" {
				region = "us-east-1"
			}
			s.note("region and service are those of the host name; the service may have another name in signatures")
			return region, service
		default:
			service = label
		}
	}
	if region == "" {
		region = "us-east-1"
	}
	s.note("service is execute-api, that of an API Gateway, and region is %s: change them if the API is another service, or elsewhere", region)
	return region, "execute-api"
}
