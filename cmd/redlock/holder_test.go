//go:build linux

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRun_TellsOthersWhatRunsAndSinceWhen(t *testing.T) {
	servers := three(t)
	dir := t.TempDir()
	for name, test := range map[string]struct {
		program string
		flags   []string
		shows   string
	}{
		"a program":              {"backup.sh", nil, "backup.sh"},
		"one of several":         {"backup.sh", []string{"--slots=3"}, "backup.sh"},
		"a name that is no text": {"a|b\x01\xff\u202e\x1b[31m", nil, "a_b????[31m"},
		"a long name":            {strings.Repeat("ä", 120), []string{"--slots=1024"}, strings.Repeat("ä", 40)},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, test.program)
			require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\ncat"), 0o755))
			p := runTool(t, servers, append(test.flags, "job", "--", path, "--password=secret")...)
			p.event("started")
			_, metadata, _ := strings.Cut(p.event("acquired").Token, ":")
			who := hostOf(t) + " pid " + strconv.Itoa(p.cmd.Process.Pid) + ": " + test.shows
			pattern := "^" + regexp.QuoteMeta(who) + `, started (\S+Z)`
			if test.flags != nil {
				pattern += ", one of " + strings.TrimPrefix(test.flags[0], "--slots=") + " slots"
			}
			found := regexp.MustCompile(pattern + "$").FindStringSubmatch(metadata)
			require.NotNil(t, found, metadata)
			_, err := time.Parse(time.RFC3339, found[1])
			assert.NoError(t, err)
			p.endsWith(0)
		})
	}
}

func TestRun_MetadataFitsWhateverItIsMadeOf(t *testing.T) {
	slots := maxSlots
	c := &runCmd{Command: []string{strings.Repeat("x", 10_000) + "|\n"}, Slots: &slots}
	text := c.holder(time.Now())
	fixed := len(text) - len(plainly(hostOf(t), maxHost)) + maxHost
	assert.LessOrEqual(t, fixed, maxMetadata)
	for _, bad := range []string{"\x00|\n\u009b\u202e", "\xff\xfe", strings.Repeat("\U0001f512", 100)} {
		plain := plainly(bad, 79)
		assert.LessOrEqual(t, len(plain), 79)
		assert.True(t, utf8.ValidString(plain))
		assert.False(t, strings.Contains(plain, "|") || strings.ContainsFunc(plain, unicode.IsControl), plain)
	}
}

func hostOf(t *testing.T) string {
	t.Helper()
	host, err := os.Hostname()
	require.NoError(t, err)
	return host
}
