// Package page holds the tests of the page of redlock web: they start the tool, Redis servers and Chromium (Debian and Ubuntu:
// apt-get install chromium). Where Chromium is missing they are left out; with CI=true that is a failure.
package page
