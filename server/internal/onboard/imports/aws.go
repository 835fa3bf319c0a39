package imports

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
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
	s.auth("aws_sigv4", "access_key_id", "the access key ID", "secret_access_key", "the secret access key")
	region, service := s.place()
	c.Config.add("region", literal(region))
	c.Config.add("service", literal(service))
	return nil
}

// place returns the region and the service for signatures, by the host of the API: SERVICE.REGION.amazonaws.com, with more labels in
// front of it, or without the region.
func (s *schemer) place() (region, service string) {
	region = s.server.variables["region"]
	u, err := url.Parse(s.server.url)
	if err != nil {
		return region, ""
	}
	labels := strings.Split(u.Hostname(), ".")
	end := slices.IndexFunc(labels, func(label string) bool { return label == "amazonaws" || label == "aws" })
	if end > 0 && labels[end] == "aws" && labels[end-1] == "api" {
		end--
	}
	if end < 1 {
		region = cmp.Or(region, "us-east-1")
		s.note("service is execute-api, that of an API Gateway, and region is %s: change them if the API is another service, or elsewhere", region)
		return region, "execute-api"
	}
	var prefix []string
	for _, label := range labels[:end] {
		if regionSyntax.MatchString(label) {
			region = label
		} else {
			prefix = append(prefix, label)
		}
	}
	s.note("region and service of the signatures are taken from the host name")
	for i := range prefix {
		if name := signed[strings.Join(prefix[i:], ".")]; name != "" {
			return cmp.Or(region, "us-east-1"), name
		}
	}
	if len(prefix) > 0 {
		service = prefix[len(prefix)-1]
	}
	return cmp.Or(region, "us-east-1"), service
}

// signed has the names in signatures of services whose host names have another, by what stands in front of the region.
var signed = map[string]string{
	"api.tunneling.iot": "IoTSecuredTunneling", "appconfigdata": "appconfig", "appstream2": "appstream",
	"catalog.marketplace": "aws-marketplace", "cloudhsmv2": "cloudhsm", "cloudsearchdomain": "cloudsearch", "contact-lens": "connect",
	"data-ats.iot": "iotdata", "data.iot": "iotdata", "data.iotevents": "ioteventsdata", "data.jobs.iot": "iot-jobs-data",
	"email": "ses", "entitlement.marketplace": "aws-marketplace", "forecastquery": "forecast", "identity-chime": "chime",
	"ivsrealtime": "ivs", "media-pipelines-chime": "chime", "meetings-chime": "chime", "memory-db": "memorydb",
	"messaging-chime": "chime", "metering.marketplace": "aws-marketplace", "migrationhub-config": "mgh", "models-v2-lex": "lex",
	"oidc": "sso-oauth", "participant.connect": "execute-api", "personalize-events": "personalize",
	"personalize-runtime": "personalize", "pinpoint": "mobiletargeting", "portal.sso": "awsssoportal", "runtime-v2-lex": "lex",
	"s3-control": "s3", "servicecatalog-appregistry": "servicecatalog", "sms-voice.pinpoint": "sms-voice", "voice-chime": "chime",
}
