package doctor

import (
	"strconv"
	"strings"
	"time"
)

// parseInfo returns the fields of INFO.
func parseInfo(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, is := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); is {
			fields[name] = value
		}
	}
	return fields
}

// number returns a field of INFO, or a setting, that is a number; 0 if it is not known.
func number(of map[string]string, name string) int64 {
	n, _ := strconv.ParseInt(of[name], 10, 64)
	return n
}

// runID returns the identity of the server; "" if it does not report one.
func (f *facts) runID() string {
	if len(f.runIDs) == 0 {
		return ""
	}
	return f.runIDs[0]
}

// identified reports whether the server says which one it is, as the restart guard needs it.
func (f *facts) identified() bool { return f.who.Process != "" && f.who.History != "" }

// uptime returns for how long the server has been up, at least; below zero if it does not report that.
func (f *facts) uptime() time.Duration {
	seconds, err := strconv.ParseUint(f.info["uptime_in_seconds"], 10, 32)
	if err != nil {
		return -1
	}
	return time.Duration(seconds) * time.Second
}

// info returns a need: fields of INFO.
func info(fields ...string) func(*facts) string {
	return func(f *facts) string {
		if f.info == nil {
			return f.noInfo
		}
		for _, field := range fields {
			if _, is := f.info[field]; !is {
				return "the field " + field + " of INFO, which the server does not report"
			}
		}
		return ""
	}
}

// config returns a need: settings of the server.
func config(names ...string) func(*facts) string {
	return func(f *facts) string {
		if len(f.config) == 0 {
			return "the right +config|get"
		}
		for _, name := range names {
			if _, is := f.config[name]; !is {
				return "the setting " + name + ", which the server does not show"
			}
		}
		return ""
	}
}

// both returns a need for all of what several need.
func both(needs ...func(*facts) string) func(*facts) string {
	return func(f *facts) string {
		for _, need := range needs {
			if missing := need(f); missing != "" {
				return missing
			}
		}
		return ""
	}
}

// either returns a need for one of two.
func either(a, b func(*facts) string) func(*facts) string {
	return func(f *facts) string {
		if a(f) == "" {
			return ""
		}
		return b(f)
	}
}
