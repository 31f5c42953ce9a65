package combine

import "testing"

// TestHashesHaveTheirPublishedValues: of XXH64 those of its specification, of
// MurmurHash3 x64 128 those that other implementations have for the seed.
func TestHashesHaveTheirPublishedValues(t *testing.T) {
	for _, c := range []struct {
		text string
		seed uint64
		want uint64
	}{
		{"", 0, 0xef46db3751d8e999},
		{"a", 0, 0xd24ec4f1a98c6e5b},
		{"abc", 0, 0x44bc2cf5ad770999},
		{"Nobody inspects the spammish repetition", 0, 0xfbcea83c8a378bf1},
	} {
		if got := xxhash([]byte(c.text), c.seed); got != c.want {
			t.Errorf("XXH64 of %q is %#x, want %#x", c.text, got, c.want)
		}
	}
	for _, c := range []struct {
		text   string
		h1, h2 uint64
	}{
		{"", 0x1e70a32266491bb9, 0x609736b252406b94},
		{"a", 0xf6020f0aa43b822f, 0xc51f4ded6e1eb0fe},
		{"The quick brown fox jumps over the lazy dog", 0x2f67dcdbc56dbf23, 0x8a0a2fafd6b2155c},
		{"0123456789abcdef", 0x257b60668d289420, 0x7136b9a3e21fb393},
		{"0123456789abcdefg", 0x354f612a9fd473ab, 0xdad03dae4ff11d6d},
		{"0123456789abcdef01234567", 0x5c48e45432f5faf1, 0x52dd107ea2887a05},
	} {
		if h1, h2 := murmur([]byte(c.text)); h1 != c.h1 || h2 != c.h2 {
			t.Errorf("MurmurHash3 of %q is %#x %#x, want %#x %#x", c.text, h1, h2, c.h1, c.h2)
		}
	}
	h1, h2 := murmurWord(0)
	if h1>>1 != 0x204480c8ee616be5 { // the hash in a theta sketch of zero
		t.Errorf("MurmurHash3 of 0 is %#x %#x", h1, h2)
	}
	if a, b := murmur(make([]byte, 8)); a != h1 || b != h2 {
		t.Errorf("eight bytes hash to %#x %#x, the word to %#x %#x", a, b, h1, h2)
	}
}
