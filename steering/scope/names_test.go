package scope

import (
	"net/netip"
	"strings"
	"testing"
)

// Every spelling of an ISP that data and people use is one id, and an id is its own spelling.
//
// Covers: issue4 names, A6
func TestCanonicalISP(t *testing.T) {
	for name, want := range map[string]string{
		"电信": "chinatelecom", "China Telecom": "chinatelecom", "中国电信": "chinatelecom", "AS4134": "chinatelecom", "as 4134": "chinatelecom",
		"CHINANET": "chinatelecom", "电信/基站WiFi": "chinatelecom", "联通": "chinaunicom", "网通": "chinaunicom", "移动": "chinamobile",
		"中移铁通": "chinatietong", "教育网": "cernet", "广电网": "chinabroadnet", "鹏博士宽带": "drpeng", "科技网": "cstnet",
		"阿里云": "alibaba", "Alibaba Cloud": "alibaba", "腾讯云": "tencent", "Huawei_Cloud": "huawei", "Amazon": "aws",
		"Microsoft/Azure": "azure", "谷歌": "google", "CloudFlare节点": "cloudflare",
		"AS64496": "as64496", "My ISP, Ltd.": "myispltd", "某某/电信": "某某电信", "": "",
	} {
		if got := CanonicalISP(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
		if again := CanonicalISP(want); again != want {
			t.Errorf("the id %q is spelt %q", want, again)
		}
	}
}

// A scope written with any of the names is the scope of the ids, and matches places of any source.
//
// Covers: issue4 names, A6
func TestScopesByName(t *testing.T) {
	for text, want := range map[string]string{
		"country=CN province=Guangdong isp=中国电信":   "country=CN province=GD isp=chinatelecom",
		"country=CN province=广东省 isp=AS4134,电信":    "country=CN province=GD isp=chinatelecom",
		"country=CN city=深圳市":                      "country=CN city=深圳",
		"country=CN,JP city=大阪市":                   "country=CN,JP city=大阪,大阪市",
		"country=US province=加利福尼亚州":               "country=US province=CA",
		"country=CN province=GuangxiZhuang,内蒙古自治区": "country=CN province=GX,NM",
	} {
		s, err := Parse(text)
		if err != nil || s.Canonical() != want {
			t.Errorf("%q is %q, %v; want %q", text, s.Canonical(), err, want)
		}
	}
	s, err := Parse("country=CN province=Guangdong isp=中国电信")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []Place{
		{Country: "CN", Province: "广东", ISP: "电信"},
		{Country: "cn", Province: "Guangdong", City: "Shenzhen", ISP: "Chinanet"},
		{Country: "CN", Province: "44", ISP: "China Telecom"},
	} {
		if q := p.Canonical(); !s.Matches(q, netip.Addr{}) {
			t.Errorf("%s does not match %s", s, q)
		}
	}
}

// Hong Kong, Macao and Taiwan are countries of their own code, however a database files them; a scope that files them
// under China is refused, since it would match nobody.
//
// Covers: issue4 names
func TestOwnCountries(t *testing.T) {
	for in, want := range map[Place]Place{
		{Country: "CN", Province: "香港"}:                                   {Continent: "AS", Country: "HK"},
		{Country: "CN", Province: "台湾省", City: "台北市"}:                     {Continent: "AS", Country: "TW", City: "台北"},
		{Country: "MO", Province: "澳门", City: "澳门"}:                       {Continent: "AS", Country: "MO", City: "澳门"},
		{Country: "HK", Province: "Kowloon"}:                              {Continent: "AS", Country: "HK", Province: "kowloon"},
		{Country: "US", Province: "MO"}:                                   {Continent: "NA", Country: "US", Province: "MO"},
		{Country: "CN", Province: "海南", City: "三沙市"}:                      {Continent: "AS", Country: "CN", Province: "HI", City: "三沙"},
		{Country: "CN", Province: "北京", City: "市", ISP: "Dr.Peng"}:        {Continent: "AS", Country: "CN", Province: "BJ", City: "市", ISP: "drpeng"},
		{Country: "JP", Province: "大阪府", City: "大阪市", ISP: "NTT-Docomo!"}: {Continent: "AS", Country: "JP", Province: "大阪府", City: "大阪市", ISP: "nttdocomo"},
	} {
		got := in.Canonical()
		if got != want {
			t.Errorf("%+v is %+v, want %+v", in, got, want)
		}
		if again := got.Canonical(); again != got {
			t.Errorf("%+v is not its own spelling: %+v", got, again)
		}
	}
	for _, text := range []string{"country=CN province=香港", "country=HK province=香港", "country=CN province=GD,TW isp=hkbn"} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), "a country code of their own") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The tables hold no name twice for two things, every entry has both labels, and ids fold to themselves.
//
// Covers: issue4 names
func TestTablesAreSound(t *testing.T) {
	for what, list := range map[string]names{
		"country": countries, "CN": provinces["CN"], "US": provinces["US"], "isp": isps, "continent": compileNames(continentNames),
	} {
		owner := map[string]string{}
		for _, e := range list {
			if e.en == "" || e.zh == "" {
				t.Errorf("%s %s has no labels", what, e.id)
			}
			for _, name := range append([]string{e.id, e.en, e.zh}, e.aliases...) {
				folded := Fold(name)
				if folded == "" || owner[folded] != "" && owner[folded] != e.id {
					t.Errorf("%s: %q is a name of %s and of %s", what, name, owner[folded], e.id)
				}
				owner[folded] = e.id
			}
			if what == "isp" && Fold(e.id) != e.id {
				t.Errorf("the id %q does not fold to itself", e.id)
			}
			if what == "country" && ContinentOf(e.id) == "" {
				t.Errorf("%s is no country", e.id)
			}
		}
	}
	if len(countries) != len(continentByCountry) {
		t.Errorf("%d countries have names, and %d have a continent", len(countries), len(continentByCountry))
	}
	seen := map[uint32]bool{}
	for line := range strings.Lines(ispNetworks) {
		f := strings.Fields(line)
		if ispLabels[f[0]].id == "" {
			t.Errorf("the networks of %q, which is no ISP", f[0])
		}
		for _, digits := range f[1:] {
			n, err := ParseASN(digits)
			if err != nil || seen[n] {
				t.Errorf("AS number %s of %s: %v, or there twice", digits, f[0], err)
			}
			seen[n] = true
		}
	}
	for name, want := range map[string]string{"中国": "CN", "china": "CN", "United States of America": "US", "刚果（金）": "CD", "刚果金": "CD", "欧洲": "", "0": ""} {
		if got := CountryNamed(name); got != want {
			t.Errorf("the country %q is %q, want %q", name, got, want)
		}
	}
	if en, zh := Label("province", "CN", "GD"); en != "Guangdong" || zh != "广东" {
		t.Errorf("GD is %q, %q", en, zh)
	}
	if en, zh := Label("isp", "", "chinatelecom"); en != "China Telecom" || zh != "中国电信" {
		t.Errorf("chinatelecom is %q, %q", en, zh)
	}
	if en, zh := Label("city", "CN", "x"); en+zh != "" {
		t.Errorf("a city has the labels %q, %q", en, zh)
	}
}
