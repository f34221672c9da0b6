// Package geotest writes address databases for tests: ipdb, ip2region (.db and .xdb) and CSV. The writers follow the
// descriptions of the formats and share nothing with the readers of package geo but the arithmetic of addresses.
package geotest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"steerpoint/geo/internal/ranges"
)

// Name is a name in two languages.
type Name struct{ EN, ZH string }

// Range is what a database says of the addresses from First to Last. Ranges given to a writer are in order of address
// and apart, IPv4 before IPv6.
type Range struct {
	First, Last netip.Addr
	Code        string // of the country, ISO 3166-1 alpha-2
	Continent   string
	Country     Name
	Province    Name
	City        Name
	ISP         Name
	Admin       string // administrative code of China, six digits
	ASN         uint32
}

// Is4 reports the family.
func (r Range) Is4() bool { return r.First.Is4() }

// CSV writes a list with a first line of names: addresses, country code, province, city, ISP in English, AS number.
// With integers the addresses are integers.
func CSV(list []Range, integers bool) []byte {
	var b strings.Builder
	b.WriteString("start,end,country_code,province,city,isp,asn\n")
	for _, r := range list {
		first, last := r.First.String(), r.Last.String()
		if integers {
			first, last = integer(r.First), integer(r.Last)
		}
		fmt.Fprintf(&b, "%s,%s,%s,%q,%q,%q,%s\n", first, last, r.Code, r.Province.EN, r.City.EN, r.ISP.EN, number(r.ASN))
	}
	return []byte(b.String())
}

func number(n uint32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// prefixes cuts a range into the fewest blocks, as (first, length) pairs.
func prefixes[K ranges.Key[K]](first, last K, each func(first K, length int)) {
	var zero K
	for {
		length := first.Width()
		starts := func(length int) bool { return first == zero || first.Prev().Last(length) != first.Last(length) }
		for length > 0 && starts(length-1) && !last.Less(first.Last(length-1)) {
			length--
		}
		each(first, length)
		end := first.Last(length)
		if !end.Less(last) {
			return
		}
		first = end.Next()
	}
}

// families divides a list.
func families(list []Range) (v4, v6 []Range) {
	at := slices.IndexFunc(list, func(r Range) bool { return !r.Is4() })
	if at < 0 {
		return list, nil
	}
	return list[:at], list[at:]
}

// Golden is a list with every kind of thing that databases say: provinces and ISPs in both languages, Hong Kong under
// China, a country alone, an ISP alone, ranges that are no block, neighbours that are equal, both ends of IPv4.
func Golden() []Range {
	a := netip.MustParseAddr
	cn, hk := Name{"China", "中国"}, Name{"Hong Kong", "香港"}
	gd, bj := Name{"Guangdong", "广东省"}, Name{"Beijing", "北京"}
	gz, sz := Name{"Guangzhou", "广州市"}, Name{"Shenzhen", "深圳市"}
	telecom, unicom, mobile := Name{"China Telecom", "电信"}, Name{"China Unicom", "联通"}, Name{"China Mobile", "中国移动"}
	return []Range{
		{First: a("0.0.0.0"), Last: a("0.255.255.255"), Code: "AU", Continent: "OC", Country: Name{"Australia", "澳大利亚"}},
		{First: a("14.16.0.0"), Last: a("14.16.127.255"), Code: "CN", Continent: "AS", Country: cn, Province: gd, City: gz, ISP: telecom, Admin: "440100", ASN: 4134},
		{First: a("14.16.128.0"), Last: a("14.16.130.9"), Code: "CN", Continent: "AS", Country: cn, Province: gd, City: sz, ISP: telecom, Admin: "440300", ASN: 4134},
		{First: a("14.16.130.10"), Last: a("14.16.255.255"), Code: "CN", Continent: "AS", Country: cn, Province: gd, City: sz, ISP: unicom, Admin: "440300", ASN: 4837},
		{First: a("14.17.0.0"), Last: a("14.18.1.255"), Code: "CN", Continent: "AS", Country: cn, Province: gd, ISP: telecom, Admin: "440000", ASN: 4134},
		{First: a("14.18.2.0"), Last: a("14.18.2.255"), Code: "CN", Continent: "AS", Country: cn, Province: gd, ISP: telecom, Admin: "440000", ASN: 4134},
		{First: a("36.0.0.0"), Last: a("36.0.7.255"), Code: "CN", Continent: "AS", Country: cn, Province: bj, City: Name{"Beijing", "北京市"}, ISP: telecom, Admin: "110100", ASN: 4847},
		{First: a("36.0.8.0"), Last: a("36.0.15.255"), Code: "CN", Continent: "AS", Country: cn, ISP: mobile, ASN: 9808},
		{First: a("42.2.0.0"), Last: a("42.3.255.255"), Code: "HK", Continent: "AS", Country: cn, Province: hk, ISP: Name{"PCCW", "电讯盈科"}, ASN: 4760},
		{First: a("47.88.0.1"), Last: a("47.88.0.1"), Code: "US", Continent: "NA", Country: Name{"United States", "美国"}, Province: Name{"California", "加利福尼亚"}, ISP: Name{"Alibaba Cloud", "阿里云"}, ASN: 45102},
		{First: a("133.0.0.0"), Last: a("133.255.255.254"), Code: "JP", Continent: "AS", Country: Name{"Japan", "日本"}},
		{First: a("255.255.255.0"), Last: a("255.255.255.255"), Code: "FR", Continent: "EU", Country: Name{"France", "法国"}, City: Name{"Paris", "巴黎"}},
		{First: a("2400:3200::"), Last: a("2400:3200:ffff:ffff:ffff:ffff:ffff:ffff"), Code: "CN", Continent: "AS", Country: cn, ISP: Name{"Alibaba Cloud", "阿里云"}, ASN: 37963},
		{First: a("240e::"), Last: a("240e:1:ffff:ffff:ffff:ffff:ffff:fff0"), Code: "CN", Continent: "AS", Country: cn, Province: gd, City: gz, ISP: telecom, Admin: "440100", ASN: 4134},
		{First: a("2a01::"), Last: a("2a01::1"), Code: "DE", Continent: "EU", Country: Name{"Germany", "德国"}},
	}
}
