package secretstore

// ParseSecrets is for the fuzz test.
var ParseSecrets = parseSecrets
