package main

import (
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
)

// inspectHint returns the command line that shows a lock on the nodes of this call, for a shell that has none of its variables. args
// are those of this call, without the command that it runs. A value of the file that --config names is not repeated.
func (f *serverFlags) inspectHint(args commandLine, name string) string {
	words := []string{"redlock", "inspect"}
	add := func(flag, value, variable string) {
		_, isSet := os.LookupEnv(variable)
		isGiven := slices.ContainsFunc(args, func(arg string) bool { return arg == flag || strings.HasPrefix(arg, flag+"=") })
		if value != "" && (isSet || isGiven) {
			words = append(words, flag, value)
		}
	}
	var urls []string
	for _, url := range f.Nodes {
		urls = append(urls, withoutPassword(url))
	}
	add("--config", string(f.Config), "REDLOCK_CONFIG")
	add("--nodes", strings.Join(urls, ","), "REDLOCK_NODES")
	add("--key-prefix", f.KeyPrefix, "REDLOCK_KEY_PREFIX")
	add("--username", f.Username, "REDLOCK_USERNAME")
	add("--password-file", f.PasswordFile, "REDLOCK_PASSWORD_FILE")
	add("--tls-ca", f.TLSCA, "REDLOCK_TLS_CA")
	add("--tls-cert", f.TLSCert, "REDLOCK_TLS_CERT")
	add("--tls-key", f.TLSKey, "REDLOCK_TLS_KEY")
	if strings.HasPrefix(name, "-") {
		words = append(words, "--")
	}
	words = append(words, name)
	for i, word := range words {
		words[i] = shellWord(word)
	}
	return strings.Join(words, " ")
}

// withoutPassword returns a URL of a node with "..." for its password, or for all but the scheme if that may be anywhere.
func withoutPassword(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	if strings.Contains(strings.ToLower(url), "password") || strings.Contains(rest, "%") {
		return scheme + "://..."
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, _, hasPassword := strings.Cut(rest[:at], ":")
		if hasPassword {
			user += ":..."
		}
		rest = user + rest[at:]
	}
	return scheme + "://" + rest
}

// shellWord returns a text as a word for a shell, and visible.
func shellWord(text string) string {
	if text = display.Text(text); plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// plainWord matches what no shell changes.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:,@%+=-]+$`)
