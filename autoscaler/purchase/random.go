package purchase

// random is a fixed sequence of numbers (SplitMix64), equal in all runs.
type random struct{ state uint64 }

func (c *random) draw() uint64 {
	c.state += 0x9e3779b97f4a7c15
	z := c.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// intN returns a number from 0 to n-1.
func (c *random) intN(n int) int { return int((c.draw() >> 32) * uint64(n) >> 32) }
