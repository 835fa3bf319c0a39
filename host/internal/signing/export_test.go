package signing

// Sign returns a signature of data with the key in a text, and the warning of the key.
func (s *Signer) Sign(algorithm, text, data string) (signature []byte, warning string, err error) {
	key, warning, err := s.Key(algorithm, text)
	if err != nil {
		return nil, "", err
	}
	signature, err = key.Sign(data)
	return signature, warning, err
}
