package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTextWidth_CountsColumns(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "abc": 3, "söngur": 6, "日本": 4, "e\u0301": 1, "한글": 4, "カナ": 4, "ｶﾅ": 2, "Ａ": 2, "😀": 2, "…": 1, "●": 1,
	} {
		assert.Equal(t, want, textWidth(text), text)
	}
}

func TestClip_NeverExceedsTheColumns(t *testing.T) {
	assert.Equal(t, "abc", clip("abc", 3))
	assert.Equal(t, "ab…", clip("abcd", 3))
	assert.Equal(t, "日…", clip("日本語", 4))
	assert.Equal(t, "日本", clip("日本", 4))
	assert.Equal(t, "…", clip("日本", 1))
}

func TestColumns_AlignWideText(t *testing.T) {
	assert.Equal(t, []string{"日本   1", "abc   20", "       3"}, columns([][]string{{"日本", "1"}, {"abc", "20"}, {"", "3"}}, 0))
}

func TestTableLines_LeaveOutEmptyColumns(t *testing.T) {
	titles := []column{{"NAME", false}, {"FENCE", true}, {"TTL", true}}
	assert.Equal(t, []string{"NAME  TTL", "a      1s", "b     10s"}, tableLines(titles, [][]string{{"a", "", "1s"}, {"b", "", "10s"}}))
	assert.Equal(t, []string{""}, tableLines(titles, nil))
}

func TestWrap_BreaksLinesAtSpaces(t *testing.T) {
	assert.Equal(t, []string{"one two", "three", "四 五"}, wrap("one two three 四 五", 7))
	assert.Equal(t, []string{"a-very-long-word", "b"}, wrap("a-very-long-word b", 5))
}
