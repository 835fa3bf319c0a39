package signature

import (
	"errors"

	"github.com/go-json-experiment/json"
	"golang.org/x/crypto/nacl/secretbox"
	"golang.org/x/crypto/scrypt"
)

// maxWork limits the memory of scrypt, 128 N r bytes. A key of cosign takes 64 MiB.
const maxWork = 256 << 20

// decrypt decrypts a private key as cosign keeps it: scrypt, and the secret box of NaCl.
func decrypt(text []byte, password string) ([]byte, error) {
	var box struct {
		KDF struct {
			Name   string `json:"name"`
			Params struct {
				N int `json:"N"`
				R int `json:"r"`
				P int `json:"p"`
			} `json:"params"`
			Salt []byte `json:"salt"`
		} `json:"kdf"`
		Cipher struct {
			Name  string `json:"name"`
			Nonce []byte `json:"nonce"`
		} `json:"cipher"`
		Text []byte `json:"ciphertext"`
	}
	errForm := errors.New("is no key of cosign: it is encrypted in another way")
	if err := json.Unmarshal(text, &box); err != nil {
		return nil, errForm
	}
	work := box.KDF.Params
	switch {
	case box.KDF.Name != "scrypt" || box.Cipher.Name != "nacl/secretbox" || len(box.Cipher.Nonce) != 24:
		return nil, errForm
	case work.N <= 0 || work.R <= 0 || work.P <= 0 || work.P > 16 || work.R > 64 || work.N > maxWork/128/work.R:
		return nil, errForm
	}
	derived, err := scrypt.Key([]byte(password), box.KDF.Salt, work.N, work.R, work.P, 32)
	if err != nil {
		return nil, errForm
	}
	plain, ok := secretbox.Open(nil, box.Text, (*[24]byte)(box.Cipher.Nonce), (*[32]byte)(derived))
	if !ok {
		return nil, errors.New("cannot be decrypted: the password is wrong, or the file was changed")
	}
	return plain, nil
}
