// Package page holds the tests of the page of redlock web: they start the tool, Redis servers and Chromium. Where Chromium is
// missing (make setup) they are left out; with CI=true that is a failure.
package page
