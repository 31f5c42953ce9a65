package configs

import (
	"fmt"
	"os"
	"strings"
)

// Password reads state.password_file. It returns an empty secret where the
// setting is empty, and a warning, never the secret, where everybody on the
// machine may read the file.
func (s State) Password() (secret, warning string, err error) {
	return readSecret("state.password_file", s.PasswordFile)
}

// Token reads admin.token_file, as State.Password does its file.
func (a Admin) Token() (secret, warning string, err error) {
	return readSecret("admin.token_file", a.TokenFile)
}

// maxSecret bounds what is read of a secret file: a setting that names a
// device or a data file by mistake must not fill the memory.
const maxSecret = 64 << 10

// readSecret reads a file that holds one secret and trims the space around
// it. An empty file is an error: an empty password or token would switch
// protection off in silence.
func readSecret(setting, path string) (secret, warning string, err error) {
	if path == "" {
		return "", "", nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", "", fmt.Errorf("%s: read secret: %w", setting, err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxSecret {
		return "", "", fmt.Errorf("%s: must be a regular file of at most %d bytes, got %s", setting, maxSecret, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", "", fmt.Errorf("%s: read secret: %w", setting, err)
	}
	secret = strings.TrimSpace(string(data))
	if secret == "" {
		return "", "", fmt.Errorf("%s: must hold a secret, got the empty file %s", setting, path)
	}
	if info.Mode().Perm()&0o004 != 0 {
		warning = fmt.Sprintf("%s: everybody on this machine may read %s (mode %04o); chmod 0400 it", setting, path, info.Mode().Perm())
	}
	return secret, warning, nil
}
