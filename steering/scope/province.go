package scope

import "strings"

// provinceCode returns the ISO 3166-2 code of a folded province name, or "".
func provinceCode(country, folded string) string {
	return provinceCodes[country][folded]
}

var provinceCodes = map[string]map[string]string{
	"CN": indexProvinces(chinaProvinces),
	"US": indexProvinces(unitedStates),
}

// indexProvinces reads lines of a code and its folded names.
func indexProvinces(lines string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		for _, name := range f {
			m[strings.ToLower(name)] = f[0]
		}
	}
	return m
}

// chinaProvinces: ISO 3166-2:CN code, the number of GB/T 2260 (the code before 2017, still found in data), names.
const chinaProvinces = `BJ 11 beijing 北京 北京市
TJ 12 tianjin 天津 天津市
HE 13 hebei 河北 河北省
SX 14 shanxi 山西 山西省
NM 15 innermongolia neimongol neimenggu innermongoliaautonomousregion 内蒙古 内蒙古自治区
LN 21 liaoning 辽宁 辽宁省
JL 22 jilin 吉林 吉林省
HL 23 heilongjiang 黑龙江 黑龙江省
SH 31 shanghai 上海 上海市
JS 32 jiangsu 江苏 江苏省
ZJ 33 zhejiang 浙江 浙江省
AH 34 anhui 安徽 安徽省
FJ 35 fujian 福建 福建省
JX 36 jiangxi 江西 江西省
SD 37 shandong 山东 山东省
HA 41 henan 河南 河南省
HB 42 hubei 湖北 湖北省
HN 43 hunan 湖南 湖南省
GD 44 guangdong 广东 广东省
GX 45 guangxi guangxizhuangautonomousregion 广西 广西壮族自治区
HI 46 hainan 海南 海南省
CQ 50 chongqing 重庆 重庆市
SC 51 sichuan 四川 四川省
GZ 52 guizhou 贵州 贵州省
YN 53 yunnan 云南 云南省
XZ 54 tibet xizang tibetautonomousregion 西藏 西藏自治区
SN 61 shaanxi 陕西 陕西省
GS 62 gansu 甘肃 甘肃省
QH 63 qinghai 青海 青海省
NX 64 ningxia ningxiahuiautonomousregion 宁夏 宁夏回族自治区
XJ 65 xinjiang xinjianguyghurautonomousregion 新疆 新疆维吾尔自治区
TW 71 taiwan 台湾 台湾省
HK 91 hongkong 香港
MO 92 macao macau 澳门
`

// unitedStates: ISO 3166-2:US code and name.
const unitedStates = `AL alabama
AK alaska
AZ arizona
AR arkansas
CA california
CO colorado
CT connecticut
DE delaware
DC districtofcolumbia washingtondc
FL florida
GA georgia
HI hawaii
ID idaho
IL illinois
IN indiana
IA iowa
KS kansas
KY kentucky
LA louisiana
ME maine
MD maryland
MA massachusetts
MI michigan
MN minnesota
MS mississippi
MO missouri
MT montana
NE nebraska
NV nevada
NH newhampshire
NJ newjersey
NM newmexico
NY newyork
NC northcarolina
ND northdakota
OH ohio
OK oklahoma
OR oregon
PA pennsylvania
RI rhodeisland
SC southcarolina
SD southdakota
TN tennessee
TX texas
UT utah
VT vermont
VA virginia
WA washington
WV westvirginia
WI wisconsin
WY wyoming
`
