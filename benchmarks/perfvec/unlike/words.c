#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ctype.h>
int main(){char b[4096];for(int i=0;i<4095;i++)b[i]="the quick brown Fox, jumps over 13 lazy dogs. "[(i*7+i/46)%46];b[4095]=0;long s=0;for(long r=0;r<1000000;r++){char*p=b;while(*p){while(*p&&!isalpha((unsigned char)*p))p++;unsigned h=5381;while(isalpha((unsigned char)*p))h=h*33+tolower((unsigned char)*p++);s+=h&7;}}printf("%ld\n",s);}
