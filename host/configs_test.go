package host_test

// oauth returns an oauth_client_credentials configuration.
func oauth(secret string) config {
	return config{"client_id": "me", "client_secret": secret, "token_url": tokenURL}
}

// bearer returns an oauth_jwt_bearer configuration.
func bearer(key string) config {
	return config{
		"client_id": "me", "private_key": key, "algorithm": "HS256", "token_url": tokenURL,
		"subject": "ann", "audience": "https://login.test",
	}
}

// with returns a copy of a configuration with some members set, or removed if their value is nil.
func with(c config, members ...any) config {
	changed := config{}
	for name, value := range c {
		changed[name] = value
	}
	for i := 0; i < len(members); i += 2 {
		name := members[i].(string)
		if changed[name] = members[i+1]; members[i+1] == nil {
			delete(changed, name)
		}
	}
	return changed
}
